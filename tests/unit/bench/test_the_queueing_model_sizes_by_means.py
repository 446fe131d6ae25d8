"""The variant autoscaler's queueing model: its queue, its largest rate, and its filter, against figures worked out by hand."""

from math import ceil

import pytest

from bench.autoscale.baselines.wva_queueing import (
    START,
    Filter,
    Shape,
    WvaQueueing,
    guessed,
    largest_rate,
    latencies,
)
from bench.autoscale.fleet_page import page
from tests.unit.bench.snapshots import seen, text
from tierwright.planning.counters import Counters

SHAPE = Shape(1000, 100)
STATE = (10.0, 0.05, 5e-5)


def test_an_idle_replica_takes_its_base_and_its_own_tokens() -> None:
    found = latencies(STATE, SHAPE, 1e-9, 256)
    assert found is not None
    assert found[0] == pytest.approx(10 + 0.05005 * 1000, rel=1e-3)
    assert found[1] == pytest.approx(10 + 0.05 + 5e-5 * 1050, rel=1e-3)


def test_with_a_batch_of_one_it_is_an_m_m_1_queue() -> None:
    # One request at a time: 10 + 0.05 x 1100 / 101 + 5e-5 x 1050 = 10.597 a step, 60.647 of prefill, 99 x 10.7 of decoding.
    service = 10.5970 + 50.05 + 99 * (10.5970 + 0.05 + 0.0525)
    rate = 0.5 / service
    found = latencies(STATE, SHAPE, rate, 1)
    assert found is not None
    # Half loaded: as long in the queue as in service; one half of the time one request is inside.
    assert found[0] == pytest.approx(service + 10 + 0.5 * 0.597 + 50.05, rel=1e-3)


def test_the_largest_rate_meets_both_limits_and_a_little_more_misses_one() -> None:
    rate = largest_rate(STATE, SHAPE, 200, 30, 256)
    for share, meets in ((1.0, True), (1.01, False)):
        found = latencies(STATE, SHAPE, share * rate, 256)
        assert found is not None
        assert (found[0] <= 200 and found[1] <= 30) is meets
    assert largest_rate(STATE, SHAPE, 50, 30, 256) == 0  # a prompt alone takes 60 ms


def test_the_start_is_solved_from_the_first_means_or_taken_as_shipped() -> None:
    found = guessed(SHAPE, 40.0, 10.5)
    assert found is not None
    alpha, beta, gamma = found
    assert alpha == pytest.approx(0.9 * 10.5)
    assert alpha + (beta + gamma) * 1000 == pytest.approx(40.0)
    assert alpha + beta + gamma * (1000 + 101 / 2) == pytest.approx(10.5)
    assert guessed(SHAPE, 5.0, 10.0) is None
    learner = Filter()
    learner.begin(SHAPE, (5.0, 10.0))
    assert learner.state == START


def test_the_filter_finds_the_latencies_of_a_replica_and_refuses_what_is_far_off() -> None:
    learner = Filter()
    truth = (11.0, 0.06, 4e-5)
    for rate in [5e-4, 1e-3, 1.5e-3, 2e-3] * 60:
        measured = latencies(truth, SHAPE, rate, 256)
        assert measured is not None
        learner.begin(SHAPE, measured)
        learner.learn(SHAPE, rate, measured, 256)
    told, true = latencies(learner.state, SHAPE, 1.2e-3, 256), latencies(truth, SHAPE, 1.2e-3, 256)
    assert told is not None
    assert true is not None
    assert told == pytest.approx(true, rel=0.05)
    fresh = Filter()
    assert not fresh.learn(SHAPE, 1e-3, (5_000.0, 500.0), 256)
    assert fresh.state == START


def _page(requests: int, seconds: float) -> str:
    counters = Counters(
        running=4, finished=requests, prompt_tokens=1000.0 * requests, output_tokens=100.0 * requests
    )
    for _ in range(requests):
        counters.first(seconds)
    counters.inter_tokens, counters.inter_token_seconds = 99.0 * requests, 99.0 * requests * 0.0105
    return page(counters, 1000, 10)


def test_replicas_are_the_rate_over_the_largest_rate() -> None:
    rule = WvaQueueing(1.0, 0.06, down_window=0)
    assert rule.tick(seen(0, _page(1, 0.04), 2)) is None
    answer = rule.tick(seen(60, _page(1201, 0.04), 2))
    start = guessed(SHAPE, 40.0, 10.5)
    assert start is not None
    assert answer == max(1, ceil(1200 / 60_000 / largest_rate(start, SHAPE, 1000, 60, 256)))


def test_no_metrics_and_no_traffic_keep_the_size() -> None:
    rule = WvaQueueing(1.0, 0.06)
    assert [rule.tick(seen(at, each, 2)) for at, each in ((0, None), (15, text()), (30, text()))] == [
        None
    ] * 3
