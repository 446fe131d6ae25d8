"""Percentiles look back five minutes, the share of requests an hour; other bounds do not mix."""

import pytest

from tierwright.control.latency_window import LatencyWindow, together
from tierwright.observe.histogram import Histogram

INF = float("inf")


def histogram(fast: int, slow: int, *, bounds: tuple[float, ...] = (0.1, 1.0, INF)) -> Histogram:
    """So many requests below the first bound, and between the first and the second."""
    return Histogram(bounds, (fast, *(fast + slow for _ in bounds[1:])), 0.0)


def window(*ticks: tuple[float, int, int]) -> LatencyWindow:
    """Ticks as (at, fast, slow)."""
    found = LatencyWindow()
    for at, fast, slow in ticks:
        found = found.seen(
            at, first_token=[histogram(fast, slow)], per_token=[], requests=fast + slow, misses=slow
        )
    return found


def test_percentiles_are_of_the_last_five_minutes() -> None:
    found = window((0.0, 0, 1000), (1000.0, 50, 0), (1010.0, 50, 0))
    percentiles = found.first_token(1010.0)
    assert percentiles is not None
    assert percentiles.p95 == pytest.approx(0.095)
    assert found.per_token(1010.0) is None
    assert found.first_token(2000.0) is None


def test_the_share_is_of_the_last_hour_and_needs_twenty_requests() -> None:
    assert window((0.0, 10, 0)).attained() is None
    assert window((0.0, 90, 10)).attained() == pytest.approx(0.9)
    assert window((0.0, 0, 100), (4000.0, 30, 0)).attained() == 1.0


def test_a_tier_without_requests_keeps_one_hour_of_nothing() -> None:
    found = window(*((float(at), 0, 0) for at in range(0, 20_000, 10)))
    assert len(found.minutes) <= 61
    assert found.attained() is None


def test_pods_of_two_versions_are_told_by_the_bounds_of_the_newer() -> None:
    other = histogram(5, 5, bounds=(0.2, 2.0, INF))
    assert together([histogram(1, 0), other, other]) == Histogram((0.2, 2.0, INF), (10, 20, 20), 0.0)
    assert together([]) is None
