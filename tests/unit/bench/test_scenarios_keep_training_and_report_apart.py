"""Scenarios: training and report share no day, requests are the same for the same seed, and each kind has the load it is named for."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.autoscale.scenarios import BURST, DAYS, ON_AND_OFF, RAMP, SCENARIOS, SQUARE, STEP
from bench.autoscale.synthetic import drawn
from bench.autoscale.traces import DAY, Request, azure_days, deepseek_day, mooncake_hour, servegen_days
from tierwright.planning.counters import TPOT_BOUNDS, TTFT_BOUNDS

DATA = Path(__file__).parents[3] / "bench/autoscale/data"
BY_NAME = {each.name: each for each in SCENARIOS}


def _used(days: dict[str, Any], which: str) -> set[object]:
    rows = days.get(which, [])
    return {
        row if isinstance(row, str) else row.get(part) for row in rows for part in ("warm_up", "scored")
    } - {None}


@pytest.mark.parametrize("trace", ["servegen-m-large", "azure-2024-chat", "deepseek-r1", "one-hour"])
def test_no_day_is_both_for_training_and_for_the_report(trace: str) -> None:
    days = DAYS[trace]
    training = _used(days, "training")
    reported = _used(days, "reporting") | _used(days, "reporting_threefold")
    assert not training & reported
    assert reported


def test_the_tuner_sees_training_days_alone() -> None:
    for name in (DAYS["tuner"]["screening"], *DAYS["tuner"]["finals"]):
        assert BY_NAME[name].tuning


def test_names_are_single_and_each_kind_is_there() -> None:
    assert len(BY_NAME) == len(SCENARIOS)
    report = [each for each in SCENARIOS if not each.tuning]
    assert {each.kind for each in report} == {"day", "hour", "shape", "fault"}
    assert len([each for each in report if each.kind == "day" and each.run.score_from == DAY]) >= 4
    assert {each.name for each in report if each.kind == "hour"} == {
        "azure2023-code",
        "azure2023-conv",
        "mooncake",
    }


def test_each_fault_changes_one_thing_of_the_run() -> None:
    assert BY_NAME["step-outage"].run.outage == (3600.0, 3900.0)
    assert (BY_NAME["square-starts"].run.jitter, BY_NAME["square-starts"].run.failure) == (0.2, 0.02)
    begin, end, room = BY_NAME["step-shortage"].run.shortage
    assert begin < 3600.0 < end
    assert room < min(BY_NAME["step"].statics) + 2


@pytest.mark.parametrize("name", ["burst", "azure2023-code", "mooncake"])
def test_a_seed_draws_the_same_requests_again(name: str) -> None:
    scenario = BY_NAME[name]
    first = scenario.requests(DATA, 2)
    assert first == scenario.requests(DATA, 2)
    assert (first != scenario.requests(DATA, 3)) is (scenario.kind == "shape")
    assert all(before.at <= after.at for before, after in pairwise(first))
    assert min(min(each.prompt, each.output) for each in first) >= 1


def _rate(requests: Sequence[Request], begin: float, end: float) -> float:
    return sum(begin <= each.at < end for each in requests) / (end - begin)


def test_the_step_is_threefold_and_goes_back() -> None:
    requests = drawn(STEP, DATA, 1)
    before, high, after = (_rate(requests, *span) for span in ((0, 3600), (3600, 7200), (7200, 9000)))
    assert high == pytest.approx(3 * before, rel=0.05)
    assert after == pytest.approx(before, rel=0.05)
    assert requests[-1].at < 9000


def test_the_ramp_rises_and_falls_evenly() -> None:
    requests = drawn(RAMP, DATA, 1)
    middles = [_rate(requests, at, at + 600) for at in (0, 2700, 5100, 7500, 10_200)]
    assert middles == pytest.approx([4, 14, 24, 14, 4], rel=0.1)


def test_the_square_changes_every_twenty_minutes() -> None:
    requests = drawn(SQUARE, DATA, 1)
    assert [round(_rate(requests, at, at + 1200) / 8) for at in range(0, 12_000, 1200)] == [1, 3] * 5


def test_the_burst_is_tenfold_for_a_minute() -> None:
    requests = drawn(BURST, DATA, 1)
    assert _rate(requests, 3600, 3660) == pytest.approx(80, rel=0.1)
    assert _rate(requests, 0, 3600) == pytest.approx(8, rel=0.1)
    assert _rate(requests, 3660, 7200) == pytest.approx(8, rel=0.1)


def test_between_whiles_nothing_comes() -> None:
    requests = drawn(ON_AND_OFF, DATA, 1)
    assert [round(_rate(requests, at, at + 1200)) for at in range(0, 14_400, 1200)] == [0, 0, 16] * 4


def test_the_weekend_of_the_week_of_2024_is_calmer_and_drawn_at_the_weeks_scale() -> None:
    thursday, saturday = (
        sum(1 for _ in azure_days(DATA, range(day, day + 1), 0.5, 16.0, 1)) / DAY for day in (4, 6)
    )
    assert thursday == pytest.approx(0.5 * 51.6 / 45.2, rel=0.05)
    assert saturday == pytest.approx(0.5 * 29.7 / 45.2, rel=0.05)


def test_deepseeks_answers_are_long_and_its_share_thins_the_day() -> None:
    requests = deepseek_day(DATA, 0.05, 1)
    assert len(requests) / DAY == pytest.approx(0.05 * 15, rel=0.15)
    assert sum(each.output for each in requests) / len(requests) == pytest.approx(1760, rel=0.1)
    assert requests == deepseek_day(DATA, 0.05, 1)


def test_mooncakes_prompts_are_what_the_cache_does_not_hold() -> None:
    requests = mooncake_hour(DATA)
    assert len(requests) == 12_031
    # 12,035 tokens, of which the cache holds 37.4 %.
    assert sum(each.prompt for each in requests) / len(requests) == pytest.approx(12_035 * 0.626, rel=0.01)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of ServeGen with a single client: the calmest that came on each of the four days that the tests need."""
    folder = tmp_path_factory.mktemp("traces")
    rates: defaultdict[str, dict[int, float]] = defaultdict(lambda: {0: 0.0, 1: 0.0, 11: 0.0, 12: 0.0})
    fits = _rows("servegen_clients_m-large")
    for row in fits:
        day = int(float(row["window_start_s"]) // DAY)
        if day in (0, 1, 11, 12):
            rates[row["client"]][day] += float(row["rate_rps"])
    tokens = _rows("servegen_token_quantiles_by_client")
    known = {row["client"] for row in tokens if row["model"] == "m-large"}
    always = {client: min(by_day.values()) for client, by_day in rates.items() if client in known}
    client = min((client for client, least in always.items() if least > 1.0), key=lambda each: always[each])
    # Of the stored day the name of the client is all that counts.
    stored = [{"arrival_s": "0", "input_tokens": "1", "output_tokens": "1", "client": client}]
    for name, rows in (
        ("servegen_mlarge_day8_generated", stored),
        ("servegen_clients_m-large", [row for row in fits if row["client"] == client]),
        ("servegen_token_quantiles_by_client", [row for row in tokens if row["client"] == client]),
    ):
        with gzip.open(folder / f"{name}.csv.gz", "wt") as target:
            writer = csv.DictWriter(target, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return folder


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as source:
        return list(csv.DictReader(source))


def test_a_day_follows_its_warm_up(small: Path) -> None:
    requests = BY_NAME["servegen-tuning-1"].requests(small, 1)
    assert {int(each.at // DAY) for each in requests} == {0, 1}
    assert requests == BY_NAME["servegen-tuning-1"].requests(small, 1)
    assert requests != BY_NAME["servegen-tuning-1"].requests(small, 2)


def test_three_times_the_clients_send_three_times_the_requests(small: Path) -> None:
    threefold = BY_NAME["servegen-day-12-x3"].requests(small, 1)
    once = servegen_days(small, range(11, 13), 1)
    assert all(before.at <= after.at for before, after in pairwise(threefold))
    assert len(threefold) == pytest.approx(3 * len(once), rel=0.1)
    assert set(once) < set(threefold)


@pytest.mark.parametrize("name", BY_NAME)
def test_objectives_lie_on_bounds_of_the_histograms(name: str) -> None:
    run = BY_NAME[name].run
    assert run.ttft in TTFT_BOUNDS
    assert run.tpot in TPOT_BOUNDS
