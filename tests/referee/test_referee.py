"""The referee judges every request once, starts replicas as slowly as told, and shows a policy what an engine would publish."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.autoscale.anchor import deviations
from bench.autoscale.baselines import Static
from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.measure import DATA, LAG
from bench.autoscale.policy import Snapshot
from bench.autoscale.referee import latencies, referee
from bench.autoscale.scrape import Scraping
from bench.autoscale.tune import make
from tierwright.planning.engine import Request

TABLES = DATA / "aic_latency_tables.csv.gz"
RUN = Run(A100_8B, initial=2, cold_start=60.0, lag=LAG)
RAMP = [
    Request(at=at / 10, prompt=2000, output=100)
    for at in range(100, 9000)
    if at % (1 if at > 4500 else 4) == 0
]
NO_TROUBLE = Scraping(least_lag=0.0, most_lag=0.0, dropped=0.0, noise=0.0)


class Watching:
    """Asks for sizes by time, and keeps what it was shown."""

    name = "watching"

    def __init__(self, *asked: tuple[float, int]) -> None:
        self._asked = asked
        self.seen: list[Snapshot] = []

    def tick(self, seen: Snapshot) -> int | None:
        """The last size whose time has come."""
        self.seen.append(seen)
        due = [size for at, size in self._asked if seen.now >= at]
        return due[-1] if due else None

    def ready(self, since: float) -> dict[float, int]:
        """Ready replicas at each tick from then on."""
        return {seen.now: seen.ready for seen in self.seen if seen.now >= since}


@pytest.mark.parametrize("setup", ["RTXPRO6000/Llama-3.1-8B"])
def test_the_referee_stays_near_a_real_vllm(setup: str) -> None:
    for each in deviations(DATA, setup):
        assert abs(each.off) <= (0.05 if each.latency == "time per output token" else 0.15), each


def test_every_request_is_judged_once_and_more_replicas_miss_no_more() -> None:
    outcomes = [referee(RAMP, Static(n), replace(RUN, initial=n), TABLES) for n in (1, 2, 8)]
    assert {outcome.requests for outcome in outcomes} == {len(RAMP)}
    assert {sum(seen for seen, _ in each.by_minute.values()) for each in outcomes} == {len(RAMP)}
    misses = [outcome.misses for outcome in outcomes]
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > 10 * misses[-1]
    for outcome in outcomes:
        assert sum(missed for _, missed in outcome.by_minute.values()) == outcome.misses


def test_requests_that_come_late_in_the_day_keep_their_time() -> None:
    watching = Watching()
    later = [each._replace(at=each.at + 50_000) for each in RAMP]
    outcome = referee(later, watching, replace(RUN, score_from=50_300.0), TABLES, scraping=NO_TROUBLE)
    assert watching.seen[0].now == pytest.approx(50_020, abs=10)
    assert min(outcome.by_minute) == 50_300 // 60
    assert outcome.requests == sum(each.at >= 50_300 for each in later)
    assert [each.at for each in latencies(later, RUN, TABLES)] == pytest.approx(
        [e.at for e in later], abs=1e-3
    )


def test_a_start_takes_the_cold_start_and_is_paid_for() -> None:
    watching = Watching((300.0, 3))
    outcome = referee(RAMP, watching, RUN, TABLES, scraping=NO_TROUBLE)
    ready = watching.ready(300.0)
    assert ready[350.0] == 2
    assert ready[370.0] == 3
    assert outcome.peak == 3
    assert outcome.hours == pytest.approx((2 * outcome.seconds + (RAMP[-1].at - 300)) / 3600, rel=0.02)


def test_starts_differ_and_some_fail_for_ever() -> None:
    watching = Watching((100.0, 12))
    outcome = referee(RAMP, watching, replace(RUN, jitter=0.5, failure=0.3), TABLES, scraping=NO_TROUBLE)
    ready = watching.ready(100.0)
    assert 2 < ready[160.0] < ready[200.0]
    assert ready[800.0] < 12
    assert outcome.peak == 12
    ages = watching.seen[-1].starting
    assert len(ages) == 12 - ready[800.0]
    assert min(ages) > 700


def test_a_pool_without_room_lets_replicas_wait_unbilled() -> None:
    watching = Watching((100.0, 6))
    run = replace(RUN, shortage=(50.0, 400.0, 3))
    outcome = referee(RAMP, watching, run, TABLES, scraping=NO_TROUBLE)
    ready = watching.ready(100.0)
    assert ready[390.0] == 3
    assert ready[480.0] == 6
    assert max(change.billed for change in outcome.changes if change.at < 400) == 3
    assert next(len(seen.starting) for seen in watching.seen if seen.now == 300.0) == 3


def test_pages_are_late_lost_and_silent_in_an_outage() -> None:
    watching = Watching()
    scraping = Scraping(dropped=0.1, outage=(400.0, 600.0))
    referee(RAMP, watching, RUN, TABLES, scraping=scraping)
    ages = [seen.now - seen.page[0] for seen in watching.seen if seen.page is not None]
    assert 15 <= min(ages) <= max(ages) <= 40
    assert all(seen.page is None for seen in watching.seen if 400 <= seen.now < 600)
    lost = [seen for seen in watching.seen if seen.page is None and not 400 <= seen.now < 600]
    assert 3 < len(lost) < 20
    times = [seen.page[0] for seen in watching.seen if seen.page is not None]
    assert times == sorted(times)


def test_a_page_holds_nothing_but_what_vllm_publishes() -> None:
    watching = Watching()
    referee(RAMP, watching, RUN, TABLES, scraping=NO_TROUBLE)
    _, page = watching.seen[-1].page or (0.0, "")
    names = set(re.findall(r"^(vllm:\w+?)(?:_bucket|_count|_sum)?\{", page, re.MULTILINE))
    assert names == {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:request_success_total",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_cached_total",
        "vllm:generation_tokens_total",
        "vllm:inter_token_latency_seconds",
        "vllm:cache_config_info",
        "vllm:time_to_first_token_seconds",
        "vllm:request_time_per_output_token_seconds",
    }


def test_what_is_counted_is_what_was_served() -> None:
    watching = Watching()
    few = [Request(at=float(at), prompt=1000 + at, output=1 + at % 50) for at in range(1, 900)]
    outcome = referee(few, watching, RUN, TABLES, scraping=NO_TROUBLE)
    _, page = watching.seen[-1].page or (0.0, "")

    def value(name: str) -> float:
        found = re.search(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    by_then = [each for each in few if each.at < watching.seen[-1].now - 5]
    assert value("request_success_total") == pytest.approx(len(by_then), abs=5)
    assert value("prompt_tokens_total") == pytest.approx(sum(each.prompt for each in by_then), rel=0.01)
    assert value("generation_tokens_total") == pytest.approx(sum(each.output for each in by_then), rel=0.01)
    assert outcome.misses == 0


def test_ours_grows_with_the_load_and_tells_the_misses_that_happened() -> None:
    ours = make("tierwright", RUN, {"allowed": 0.05, "hold": 600.0})
    outcome = referee(RAMP, ours, RUN, TABLES)
    assert outcome.peak > 2
    assert ours.told_misses == pytest.approx(1 - outcome.attainment, abs=0.03)  # type: ignore[attr-defined]


def test_tables_without_the_setup_are_refused(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "tables.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("setup,kind,prefill_tokens,active_kv_tokens,context_length,latency_ms\n")
    with pytest.raises(ValueError, match="no rows of the setup llama31-8b_a100_tp1"):
        referee(RAMP, Static(2), RUN, path)
