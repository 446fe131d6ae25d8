"""llm-d's queue, queue-guard, token-aware and SLO-aware rules, and both versions of its Workload Variant Autoscaler."""

import pytest

from bench.autoscale.baselines.llm_d_queue import LlmdQueue, LlmdQueueGuard, LlmdTokenAware
from bench.autoscale.baselines.slo_aware import SloAware
from bench.autoscale.baselines.wva import WvaSaturation, WvaTokens
from bench.autoscale.fleet_page import page
from tests.unit.bench.snapshots import follow, seen, text
from tierwright.planning.counters import Counters


def test_the_queue_rule_waits_out_its_window_before_it_grows() -> None:
    sizes = follow(LlmdQueue(), text(running=32, waiting=4), 330, 1)
    assert sizes[29] == 1
    assert sizes[-1] == 4  # 4 / 1 is more than 32 / 16, and 1 doubles twice within the last 30 s


def test_the_queue_rule_keeps_the_size_without_metrics() -> None:
    assert LlmdQueue(up_window=0).tick(seen(0, None, 3)) is None
    assert LlmdQueue(up_window=0).tick(seen(0, "up 1\n", 3)) is None


def test_requests_before_the_first_replica_count_as_queue() -> None:
    assert LlmdQueue(up_window=0).tick(seen(0, text(), 0, wanted=1, queued=2)) == 2


@pytest.mark.parametrize(
    ("waiting", "ready", "starting", "wanted"),
    [
        (6, 2, 0, 4),  # doubled at most
        (6, 2, 2, 4),  # 6 less the 2 that start is 4, as many as there are
        (7, 2, 2, 5),
        (3, 2, 2, 4),  # less than there are: the window of 300 s holds
    ],
)
def test_queue_guard_takes_starting_replicas_off_what_it_asks(
    waiting: int, ready: int, starting: int, wanted: int
) -> None:
    assert LlmdQueueGuard().tick(seen(0, text(waiting=waiting), ready, starting=starting)) == wanted


def test_queue_guard_falls_back_to_one_replica_with_more_than_three_failures() -> None:
    rule = LlmdQueueGuard(down_window=0)
    assert [rule.tick(seen(now, None, 4)) for now in (0, 15, 30, 45)] == [None, None, None, 1]
    assert rule.tick(seen(60, text(waiting=4), 4)) == 4
    assert rule.tick(seen(75, None, 4)) is None  # a reading between begins the count anew


def test_queue_guard_doubles_at_most_in_fifteen_seconds() -> None:
    assert LlmdQueueGuard().tick(seen(0, text(waiting=9), 1)) == 2
    assert LlmdQueueGuard().tick(seen(0, text(waiting=9), 3)) == 6


def _with_prompts(prompt: float, *, waiting: int = 0, kv: float = 0.0) -> str:
    counters = Counters(waiting=waiting, kv_usage=kv, prompt_tokens=10 * prompt)
    for _ in range(10):
        counters.first(0.1)
    return page(counters, 1000, 10)


def test_token_aware_asks_for_the_backlogs_seconds_one_replica_in_three_minutes() -> None:
    rule = LlmdTokenAware(prefill_rate=10_000)
    shown = _with_prompts(2_000, waiting=30)  # 6 s of prefill: ceil(6 / 1.5) = 4
    assert follow(rule, shown, 380, 1)[::3] == [2] * 6 + [3] * 6 + [4]


def test_token_aware_asks_for_no_change_within_the_hpas_tolerance() -> None:
    assert LlmdTokenAware(10_000, down_window=0).tick(seen(0, _with_prompts(100, kv=0.75), 4)) == 4  # 0.94
    assert (
        LlmdTokenAware(10_000, down_window=0).tick(seen(0, _with_prompts(100, kv=0.5), 4)) == 3
    )  # 2.5 pods' worth, one at a time


def test_token_aware_counts_the_kv_cache_of_all_ready_replicas() -> None:
    assert LlmdTokenAware(10_000).tick(seen(0, _with_prompts(100, kv=0.9), 2)) == 3  # ceil(1.8 / 0.8)
    assert LlmdTokenAware(10_000).tick(seen(0, None, 2)) is None
    assert LlmdTokenAware(10_000).tick(seen(0, text(waiting=5), 2)) == 2  # no prompt known yet


@pytest.mark.parametrize(
    ("strain", "provisioned", "ready", "asked"),
    [
        (1.1, 4, 4, 8),
        (1.1, 4, 2, 4),  # half is ready: 1.1 x 0.5 / 0.55 = 1
        (0.56, 4, 4, 5),
        (0.5, 4, 4, 4),
        (0.2, 4, 4, 2),
        (0.2, 4, 2, 2),  # no credit on the way down
        (0.0, 4, 4, 0),
        (2.0, 3, 0, 11),  # none ready: no credit
    ],
)
def test_slo_aware_outside_its_band(strain: float, provisioned: int, ready: int, asked: int) -> None:
    assert SloAware(1.0, 0.06).asked(strain, provisioned, ready) == asked


@pytest.mark.parametrize(("fleet", "size"), [(9, 10), (11, 11)])
def test_slo_aware_goes_through_an_hpa_whose_tolerance_hides_a_tenth(fleet: int, size: int) -> None:
    # 0.725 s, the 90th percentile of what lies evenly in 0.5..0.75 s, over a limit that makes it 1.05 times the threshold.
    rule = SloAware(0.725 / (0.55 * 1.05), 10.0)
    answers = []
    for tick in range(12):
        counters = Counters()
        for _ in range(10 * (tick + 1)):
            counters.first(0.6)
        answers.append(rule.tick(seen(tick * 10.0, page(counters, 1000, 10), fleet)))
    assert answers[-1] == size


def test_slo_aware_takes_a_minute_without_traffic_for_no_strain_and_shrinks_one_in_two_minutes() -> None:
    sizes = follow(SloAware(1.0, 0.06), text(), 420, 4)
    assert sizes[17] == 4
    assert sizes[20] == 3
    assert sizes[28] == 3
    assert sizes[33] == 2


def test_slo_aware_grows_after_half_a_minute_above_its_band_and_holds_without_metrics() -> None:
    rule = SloAware(1.0, 0.06)
    sizes, ready = [], 2
    for tick in range(12):
        counters = Counters()
        for _ in range(10 * (tick + 1)):
            counters.first(0.9)
        ready = rule.tick(seen(tick * 10.0, page(counters, 1000, 10), ready)) or ready
        sizes.append(ready)
    assert sizes[2] == 2
    assert sizes[-1] > 2
    assert SloAware(1.0, 0.06).tick(seen(0, None, 2)) is None


@pytest.mark.parametrize(
    ("usage", "queue", "replicas", "step"),
    [
        (0.85, 0, 3, 1),  # saturated
        (0.1, 5, 3, 1),  # saturated
        (0.71, 0, 3, 1),  # spare KV 0.09
        (0.70, 0, 3, 0),  # spare KV 0.10; 1.05 on two
        (0.1, 2.5, 3, 1),  # spare queue 2.5
        (0.46, 0, 3, -1),  # 0.69 on two
        (0.47, 0, 3, 0),  # 0.705 on two
        (0.0, 0, 1, 0),  # never under one
        (0.35, 0, 2, -1),
    ],
)
def test_wva_v1_steps_by_one_on_spare_capacity(usage: float, queue: float, replicas: int, step: int) -> None:
    assert WvaSaturation().step(usage, queue, replicas) == step


def test_wva_v1_waits_for_replicas_that_start_and_remembers_a_minutes_worst() -> None:
    assert WvaSaturation().tick(seen(0, text(kv=0.9), 2)) == 3
    assert WvaSaturation().tick(seen(0, text(kv=0.9), 2, starting=1)) == 3
    assert WvaSaturation().tick(seen(0, None, 2)) is None
    rule = WvaSaturation(down_window=0)
    assert rule.tick(seen(0, text(kv=0.6), 3)) == 3
    assert rule.tick(seen(59, text(kv=0.1), 3)) == 3
    assert rule.tick(seen(60, text(kv=0.1), 3)) == 2  # the 0.6 is a minute old


def test_the_hpa_behind_wva_ignores_one_replica_more_of_twelve() -> None:
    assert WvaSaturation().tick(seen(0, text(kv=0.9), 12)) == 12  # 13 / 12 is within its tolerance


def test_wva_v2_capacity_is_the_kv_caches_until_a_queue_shows_it() -> None:
    rule = WvaTokens()
    assert rule.capacity(10_000, 4_000, 0, output=200) == pytest.approx(8_000)
    assert rule.capacity(10_000, 4_000, 5, output=200) == pytest.approx(4_000)
    assert rule.capacity(10_000, 6_000, 9, output=200) == pytest.approx(6_000)
    assert rule.capacity(10_000, 1_000, 0, output=499) == pytest.approx(5_000)  # mean of what was seen
    assert rule.capacity(10_000, 1_000, 0, output=99) == pytest.approx(8_000)  # other lengths were not
    assert rule.capacity(10_000, 9_000, 5, output=600) == pytest.approx(8_000)


@pytest.mark.parametrize(
    ("demand", "ready", "starting", "step"),
    [
        (17_000, 2, 0, 2),  # 20,000 against 10,000 with 5,000 each
        (17_000, 2, 1, 1),
        (17_000, 2, 2, 0),
        (7_000, 2, 0, 0),  # 10,000 at 0.70: nothing to spare
        (3_500, 2, 0, -1),
        (3_600, 2, 0, 0),
        (0, 4, 0, -4),
    ],
)
def test_wva_v2_counts_starting_replicas_when_it_grows(
    demand: float, ready: int, starting: int, step: int
) -> None:
    assert WvaTokens().step(demand, 5_000, ready, starting) == step


def test_wva_v2_reads_tokens_from_the_page() -> None:
    # 2 replicas with 5,000 tokens each, 9,000 in use: 10,588 wanted of 8,000.
    assert WvaTokens().tick(seen(0, text(kv=0.9), 2)) == 3
    assert WvaTokens().tick(seen(0, None, 2)) is None
    assert WvaTokens().tick(seen(0, "up 1\n", 2)) is None


def test_wva_v2_queued_requests_are_worth_their_mean_tokens() -> None:
    rule = WvaTokens()
    before = Counters(kv_usage=0.4)
    after = Counters(kv_usage=0.4, waiting=4, finished=10, prompt_tokens=10_000, output_tokens=5_000)
    assert rule.tick(seen(0, page(before, 1000, 10), 2)) == 2
    # 4,000 in use and 4 x 1,500 queued: 11,765 wanted, 8,000 there.
    assert rule.tick(seen(30, page(after, 1000, 10), 2)) == 3
