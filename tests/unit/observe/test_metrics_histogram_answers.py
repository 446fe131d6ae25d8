"""How many requests missed an objective: exact where the histogram has the bound, and never fewer than can be known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright.observe.histogram import Histogram

ANSWERS = Histogram(bounds=(0.5, 1.0, 2.0, math.inf), counts=(10.0, 40.0, 90.0, 100.0), sum=120.0)


@pytest.mark.parametrize(
    ("limit", "above"),
    [
        (0.5, 90),
        (1.0, 60),
        (2.0, 10),
        (math.inf, 0),
        (1.5, 35),
        (0.25, 95),
        (0.0, 100),
        (-1.0, 100),
        (3.0, 10),
    ],
)
def test_requests_above_a_limit(limit: float, above: float) -> None:
    assert ANSWERS.above(limit) == above


def test_all_of_the_last_bucket_counts_as_missed() -> None:
    assert Histogram((math.inf,), (7.0,), 1.0).above(5.0) == 7


@pytest.mark.parametrize(
    ("limit", "around"), [(1.0, (1.0, 1.0)), (1.7, (1.0, 2.0)), (0.1, (0.0, 0.5)), (9.0, (2.0, math.inf))]
)
def test_bounds_next_to_a_limit(limit: float, around: tuple[float, float]) -> None:
    assert ANSWERS.around(limit) == around


@pytest.mark.parametrize(
    ("share", "value"), [(0.05, 0.25), (0.1, 0.5), (0.25, 0.75), (0.9, 2.0), (0.99, 2.0), (0.0, 0.0)]
)
def test_quantiles(share: float, value: float) -> None:
    assert ANSWERS.quantile(share) == value


def test_no_observations_have_no_quantile() -> None:
    assert Histogram((1.0, math.inf), (0.0, 0.0), 0.0).quantile(0.5) is None
    assert Histogram((math.inf,), (3.0,), 1.0).quantile(0.5) is None


def test_an_empty_first_bucket_does_not_divide_by_zero() -> None:
    assert Histogram((1.0, 2.0, math.inf), (0.0, 5.0, 5.0), 1.0).quantile(0.0) == 1.0


@given(st.floats(-1, 10), st.floats(-1, 10))
def test_a_higher_limit_is_missed_by_no_more(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= ANSWERS.above(high) <= ANSWERS.above(low) <= ANSWERS.count
