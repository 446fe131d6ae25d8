"""NVIDIA Dynamo's planner in our loop: its own decisions, from records that are built of a page.

Runs where its wheel is installed: `pip install -r requirements/bench-dynamo.txt`, `pip install --no-deps -r
requirements/bench-dynamo-wheel.txt`, and `python -m pytest -W ignore` there.
"""

import pytest

from bench.autoscale.baselines.dynamo import DynamoLatency, DynamoSla, DynamoThroughput
from bench.autoscale.baselines.dynamo_planner import Planner, traffic
from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.fleet_page import page
from tests.unit.bench.snapshots import seen, text
from tierwright.observe.metrics import parse
from tierwright.observe.page_delta import between
from tierwright.planning.counters import Counters

pytest.importorskip("dynamo.planner", reason="needs requirements/bench-dynamo.txt and bench-dynamo-wheel.txt")

RUN = Run(A100_8B, most=6)
BLOCKS, BLOCK = A100_8B.kv_blocks, A100_8B.block_size


def _busy(ticks: int, *, kv: float = 0.2, waiting: int = 0, seconds: float = 0.02) -> str:
    """After so many ticks of 10 s: ten requests each of 1,000 and 100 tokens on two replicas, 500 steps."""
    counters = Counters(
        running=20,
        waiting=waiting,
        kv_usage=kv,
        finished=10 * ticks,
        prompt_tokens=10_000.0 * ticks,
        output_tokens=1_000.0 * ticks,
        inter_tokens=990.0 * ticks,
        inter_token_seconds=990.0 * ticks * seconds,
        steps=500.0 * ticks,
    )
    for _ in range(10 * ticks):
        counters.first(0.1)
        counters.ended(seconds)
    return page(counters, 2 * BLOCKS, BLOCK)


def test_a_record_holds_a_ready_replicas_part_of_the_page() -> None:
    planner = Planner(RUN, optimization_target="latency")
    before, after = parse(_busy(1)), parse(_busy(2, waiting=4))
    delta = between(before, after)
    assert traffic(after, delta) == pytest.approx((20.0, 1000.0, 0.02))
    workers = planner.workers(after, delta, 2).decode
    assert len(workers) == 2
    record = workers["0", 0]
    assert record.wall_time == pytest.approx(0.02)
    scheduled, queued = record.scheduled_requests, record.queued_requests
    assert (scheduled.num_decode_requests, scheduled.sum_decode_kv_tokens) == (
        10,
        round(0.2 * BLOCKS * BLOCK),
    )
    assert (scheduled.num_prefill_requests, scheduled.sum_prefill_tokens) == (1, 20)
    assert (queued.num_prefill_requests, queued.sum_prefill_tokens) == (2, 2000)


def test_without_a_count_of_steps_those_that_generate_are_counted() -> None:
    pages = [
        parse("\n".join(line for line in _busy(ticks).splitlines() if "iteration_tokens" not in line) + "\n")
        for ticks in (1, 2)
    ]
    assert traffic(pages[1], between(*pages))[0] == pytest.approx(10_000 / (1_000 / 20))
    assert traffic(pages[0], None) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("kv", "throughput", "latency"),
    [(0.05, 1, 1), (0.3, 1, None), (0.45, 1, 3), (0.7, None, 3)],
)
def test_the_easy_targets_compare_kv_use_with_their_constants(
    kv: float, throughput: int | None, latency: int | None
) -> None:
    assert DynamoThroughput(RUN).tick(seen(0, _busy(1, kv=kv), 2)) == throughput
    assert DynamoLatency(RUN).tick(seen(0, _busy(1, kv=kv), 2)) == latency


def test_queued_prompts_count_as_kv() -> None:
    rule = DynamoThroughput(RUN)
    assert rule.tick(seen(0, _busy(1, kv=0.8), 2)) is None
    assert rule.tick(seen(10, _busy(2, kv=0.8, waiting=300), 2)) == 3  # 150 more prompts on each: 115 %


def test_other_shares_than_shipped_run_as_the_wheels_target_with_settings() -> None:
    assert DynamoLatency(RUN, up=10, down=5).tick(seen(0, _busy(1, kv=0.12), 2)) == 3
    assert DynamoLatency(RUN, up=10, down=5).tick(seen(0, _busy(1, kv=0.07), 2)) is None
    assert DynamoLatency(RUN, up=10, down=50).tick(seen(0, _busy(1, kv=0.07), 2)) == 1  # down stays below up


def test_nothing_is_done_while_a_replica_starts_and_without_metrics() -> None:
    rule = DynamoLatency(RUN)
    assert rule.tick(seen(0, _busy(1, kv=0.9), 2, starting=1)) is None
    assert rule.tick(seen(10, None, 2)) is None
    assert rule.tick(seen(20, "up 1\n", 2)) is None
    assert rule.tick(seen(30, _busy(2, kv=0.9), 0, wanted=2)) is None
    assert rule.tick(seen(40, _busy(3, kv=0.9), 2)) == 3


def test_the_budget_bounds_it() -> None:
    assert DynamoLatency(RUN).tick(seen(0, _busy(1, kv=0.9), 6)) in (None, 6)


def _over_time(rule: DynamoSla, fixed: float) -> list[int | None]:
    """Answers while KV use goes up and down and a step takes `fixed` and a part that grows with it."""
    counters, answers = Counters(), []
    for tick in range(1, 60):
        kv = 0.02 + 0.02 * (tick % 5)
        counters.running, counters.kv_usage = round(200 * kv), kv
        counters.finished += 10
        counters.prompt_tokens += 10_000 + 1_000 * (tick % 3)
        counters.output_tokens += 1_000
        counters.inter_tokens += 990
        counters.inter_token_seconds += 990 * (fixed + 0.1 * kv)
        counters.steps += 500
        for _ in range(10):
            counters.first(0.1)
            counters.ended(fixed)
        answers.append(rule.tick(seen(10.0 * tick, page(counters, 2 * BLOCKS, BLOCK), 2)))
    return answers


def test_sla_grows_when_every_worker_is_estimated_above_an_objective() -> None:
    answers = _over_time(DynamoSla(Run(A100_8B, tpot=0.02, most=6), predictor="constant"), 0.04)
    assert 3 in answers
    assert 1 not in answers


def test_sla_shrinks_when_one_less_would_do_and_keeps_its_size_without_data() -> None:
    rule = DynamoSla(RUN, predictor="constant")
    assert rule.tick(seen(0, text(), 2)) is None
    answers = _over_time(rule, 0.01)
    assert 1 in answers
    assert 3 not in answers


@pytest.mark.parametrize("predictor", ["constant", "arima"])
def test_each_of_the_wheels_predictors_can_forecast(predictor: str) -> None:
    rule = DynamoSla(RUN, interval=60, predictor=predictor)
    for tick in range(1, 80):
        rule.tick(seen(10.0 * tick, _busy(tick, kv=0.01 * (tick % 7)), 2))
    assert rule.floor >= 1
