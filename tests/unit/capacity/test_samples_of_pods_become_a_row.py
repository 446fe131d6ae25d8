"""Pods' samples become one row of the tier: what is missing is never zero, and young pods teach no latency."""

from dataclasses import replace

import pytest

from tests.unit.capacity.tiers import pod
from tierwright.capacity.samples import Judged, Observation, PodSample, row_of

YOUNG = 120.0


def seen(*pods: PodSample, ready: int | None = None) -> Observation:
    return Observation(pods, ready=len(pods) if ready is None else ready, wanted=len(pods))


def test_counts_are_added() -> None:
    row = row_of(seen(pod(10), pod(20, waiting=3.0)), 50.0, YOUNG)
    assert row is not None
    assert (row.arrivals, row.backlog, row.ready) == (30, 3, 2)
    assert row.running == pytest.approx((pod(10).running or 0) + (pod(20).running or 0))
    assert (row.prompt_tokens, row.output_tokens, row.seconds) == (30_000, 3_000, 10)


def test_no_pod_is_no_row() -> None:
    assert row_of(seen(), 0.0, YOUNG) is None


@pytest.mark.parametrize("missing", ["arrivals", "waiting", "running"])
def test_a_pod_that_tells_no_arrivals_is_not_a_pod_without_traffic(missing: str) -> None:
    silent = replace(pod(), **{missing: None})  # type: ignore[arg-type]
    assert row_of(seen(silent), 0.0, YOUNG) is None


def test_an_interval_without_length_is_no_sample() -> None:
    assert row_of(seen(pod(seconds=0.0)), 0.0, YOUNG) is None


def test_fewer_than_half_of_the_pods_are_not_enough() -> None:
    assert row_of(seen(pod(), pod(), ready=5), 0.0, YOUNG) is None


def test_one_silent_pod_of_three_is_inferred_from_the_others() -> None:
    row = row_of(seen(pod(10), pod(20), ready=3), 0.0, YOUNG)
    assert row is not None
    assert row.arrivals == pytest.approx(45)
    assert row.ready == 3


def test_more_samples_than_ready_pods_are_not_scaled_down() -> None:
    row = row_of(seen(pod(10), pod(10), ready=1), 0.0, YOUNG)
    assert row is not None
    assert (row.arrivals, row.ready) == (20, 2)


def test_requests_at_the_gateway_are_backlog() -> None:
    row = row_of(replace(seen(pod(waiting=2.0)), queued=7.0), 0.0, YOUNG)
    assert row is not None
    assert row.backlog == 9


def test_misses_of_two_objectives_are_added() -> None:
    row = row_of(seen(pod(first_token=Judged(10, 1), per_token=Judged(5, 1))), 0.0, YOUNG)
    assert row is not None
    assert row.requests == 10
    assert row.misses == pytest.approx(10 * (0.1 + 0.2))


def test_no_more_misses_than_requests() -> None:
    row = row_of(seen(pod(first_token=Judged(10, 9), per_token=Judged(10, 9))), 0.0, YOUNG)
    assert row is not None
    assert row.misses == 10


def test_one_objective_alone() -> None:
    row = row_of(seen(pod(first_token=None, per_token=Judged(8, 2))), 0.0, YOUNG)
    assert row is not None
    assert (row.requests, row.misses) == (8, 2)


def test_young_pods_count_for_demand_and_not_for_latency() -> None:
    late = Judged(10, 10)
    row = row_of(seen(pod(10, first_token=Judged(10, 0)), pod(10, age=30.0, first_token=late)), 0.0, YOUNG)
    assert row is not None
    assert row.arrivals == 20
    assert (row.requests, row.misses) == (10, 0)


def test_what_the_gateway_measured_is_preferred() -> None:
    row = row_of(replace(seen(pod(first_token=Judged(10, 5))), judged=Judged(100, 1)), 0.0, YOUNG)
    assert row is not None
    assert (row.requests, row.misses) == (100, 1)
