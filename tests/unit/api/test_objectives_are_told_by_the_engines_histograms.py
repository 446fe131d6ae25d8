"""Any objective that a person chooses is told by the bounds at which engines count; the bounds are what vLLM takes."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.engine_sim.metrics import FIRST_TOKEN_SECONDS, TOKEN_SECONDS
from tierwright.api.latency_buckets import (
    NARROW,
    TIME_PER_OUTPUT_TOKEN_BUCKETS,
    TIME_TO_FIRST_TOKEN_BUCKETS,
    is_told,
    neighbours,
)

BOTH = (TIME_TO_FIRST_TOKEN_BUCKETS, TIME_PER_OUTPUT_TOKEN_BUCKETS)


@pytest.mark.parametrize("bounds", BOTH)
def test_bounds_rise_and_are_finite(bounds: tuple[float, ...]) -> None:
    assert bounds[0] > 0
    assert all(low < high for low, high in pairwise(bounds))
    assert all(math.isfinite(bound) for bound in bounds)
    assert len(bounds) <= 80, "each is a series of every pod"


def test_every_bound_of_vllms_own_is_kept() -> None:
    """Dashboards and rules that others wrote for vLLM ask for them."""
    assert set(FIRST_TOKEN_SECONDS) <= set(TIME_TO_FIRST_TOKEN_BUCKETS)
    assert set(TOKEN_SECONDS) <= set(TIME_PER_OUTPUT_TOKEN_BUCKETS)


@given(st.floats(0.05, 20.0))
def test_any_objective_for_the_first_token_is_told(seconds: float) -> None:
    assert is_told(*neighbours(TIME_TO_FIRST_TOKEN_BUCKETS, seconds), seconds)


@given(st.floats(0.005, 0.2))
def test_any_objective_for_an_output_token_is_told(seconds: float) -> None:
    assert is_told(*neighbours(TIME_PER_OUTPUT_TOKEN_BUCKETS, seconds), seconds)


@pytest.mark.parametrize(
    "seconds", [0.1, 0.2, 0.25, 0.3, 0.35, 0.5, 0.75, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0]
)
def test_round_objectives_are_told_exactly(seconds: float) -> None:
    assert neighbours(TIME_TO_FIRST_TOKEN_BUCKETS, seconds) == (seconds, seconds)
    if seconds <= 0.25:
        assert neighbours(TIME_PER_OUTPUT_TOKEN_BUCKETS, seconds / 10) == (seconds / 10, seconds / 10)


def test_beyond_the_ends_nothing_is_told() -> None:
    assert neighbours(TIME_PER_OUTPUT_TOKEN_BUCKETS, 90.0) == (80.0, None)
    assert neighbours(TIME_PER_OUTPUT_TOKEN_BUCKETS, 0.0005) == (None, 0.001)
    assert not is_told(80.0, None, 90.0)
    assert not is_told(None, 0.001, 0.0005)
    assert is_told(1.0, 1.0 + NARROW, 1.0)
    assert not is_told(1.0, 1.3, 1.1)
