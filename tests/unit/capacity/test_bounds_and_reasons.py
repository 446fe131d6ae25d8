"""Every bound between what is called for and what is asked for, with the reason that is told."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.tiers import pod
from tierwright.capacity.bounds import Bounded, Call, bounded, without_data
from tierwright.capacity.decision import Reason
from tierwright.capacity.samples import Observation
from tierwright.capacity.settings import TierSettings

SETTINGS = TierSettings(minimum=2, maximum=10, attainment=0.95, accelerator="nvidia")
SLEEPY = replace(SETTINGS, minimum=0)
CALL = Call(replicas=4, lasting=4, failing=0, idle=False, window_full=True, rested=True)


def seen(ready: int, wanted: int | None = None, *, told: int | None = None, **changes: object) -> Observation:
    pods = (pod(),) * (ready if told is None else told)
    observation = Observation(pods, ready=ready, wanted=ready if wanted is None else wanted)
    return replace(observation, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observation", "call", "expected"),
    [
        (seen(4), CALL, Bounded(4, Reason.STEADY)),
        (seen(4), replace(CALL, replicas=9), Bounded(9, Reason.DEMAND_GREW)),
        (seen(2, 6), replace(CALL, replicas=6), Bounded(6, Reason.STEADY)),
        (seen(4), replace(CALL, replicas=30), Bounded(10, Reason.DEMAND_GREW)),
        (seen(10), replace(CALL, replicas=30), Bounded(10, Reason.AT_MAXIMUM)),
        (seen(2), replace(CALL, replicas=1, lasting=1), Bounded(2, Reason.AT_MINIMUM)),
        (seen(6), CALL, Bounded(5, Reason.DEMAND_FELL)),
        (seen(6), replace(CALL, lasting=6), Bounded(6, Reason.FORECAST_HOLDS)),
        (seen(6), replace(CALL, window_full=False), Bounded(6, Reason.WINDOW_NOT_FULL)),
        (seen(6), replace(CALL, rested=False), Bounded(6, Reason.STEP_LIMITED)),
        (seen(6, told=5), CALL, Bounded(6, Reason.PARTIAL_METRICS)),
        (seen(6, told=5), replace(CALL, replicas=8), Bounded(8, Reason.DEMAND_GREW)),
        (seen(4), replace(CALL, replicas=8, failing=0), Bounded(8, Reason.DEMAND_GREW)),
        (seen(3, 4), replace(CALL, failing=1), Bounded(5, Reason.STARTS_FAIL)),
        (seen(0, 4), replace(CALL, failing=4), Bounded(4, Reason.STEADY)),
        (seen(3, 5), replace(CALL, replicas=2, lasting=2, failing=2), Bounded(4, Reason.DEMAND_FELL)),
        (seen(4, placeable=6), replace(CALL, replicas=9), Bounded(6, Reason.POOL_FULL, unplaced=3)),
        (seen(4, placeable=9), replace(CALL, replicas=8), Bounded(8, Reason.DEMAND_GREW)),
        (seen(4, 7, placeable=4), replace(CALL, replicas=9), Bounded(7, Reason.POOL_FULL, unplaced=2)),
        (seen(4, 7, placeable=4), replace(CALL, replicas=7), Bounded(7, Reason.POOL_FULL, unplaced=3)),
        (seen(4, 7, placeable=7), replace(CALL, replicas=7), Bounded(7, Reason.STEADY)),
        (seen(12), replace(CALL, replicas=12, lasting=12), Bounded(10, Reason.AT_MAXIMUM)),
        (seen(1), replace(CALL, replicas=1, lasting=1), Bounded(2, Reason.AT_MINIMUM)),
    ],
)
def test_with_a_plan(observation: Observation, call: Call, expected: Bounded) -> None:
    assert bounded(SETTINGS, observation, call) == expected


def test_at_most_so_many_are_added_at_once() -> None:
    careful = replace(SETTINGS, most_up=2)
    assert bounded(careful, seen(4), replace(CALL, replicas=9)) == Bounded(6, Reason.STEP_LIMITED)
    assert bounded(careful, seen(4), replace(CALL, replicas=6)) == Bounded(6, Reason.DEMAND_GREW)


def test_large_fleets_shrink_by_a_tenth() -> None:
    large = replace(SETTINGS, maximum=100)
    assert bounded(large, seen(50), CALL) == Bounded(45, Reason.DEMAND_FELL)


def test_an_idle_tier_goes_to_zero_where_it_may() -> None:
    idle = replace(CALL, replicas=1, lasting=1, idle=True)
    assert bounded(SLEEPY, seen(1), idle) == Bounded(0, Reason.IDLE)
    assert bounded(SETTINGS, seen(2), idle) == Bounded(2, Reason.AT_MINIMUM)
    assert bounded(SLEEPY, seen(1), replace(idle, idle=False)) == Bounded(1, Reason.STEADY)


@pytest.mark.parametrize(
    ("settings", "observation", "expected"),
    [
        (SETTINGS, seen(4, told=0), (None, Reason.NO_METRICS)),
        (SETTINGS, seen(0, 3), (None, Reason.STARTING)),
        (SETTINGS, seen(0, 1), (2, Reason.AT_MINIMUM)),
        (SETTINGS, seen(12, told=0), (10, Reason.AT_MAXIMUM)),
        (SLEEPY, seen(0), (None, Reason.IDLE)),
        (SLEEPY, seen(0, queued=1.0), (1, Reason.WOKEN)),
        (SLEEPY, seen(0, queued=1.0, placeable=0), (None, Reason.POOL_FULL)),
        (SETTINGS, seen(0, queued=1.0), (2, Reason.WOKEN)),
    ],
)
def test_without_data(
    settings: TierSettings, observation: Observation, expected: tuple[int | None, Reason]
) -> None:
    assert without_data(settings, observation) == expected


@pytest.mark.parametrize(("minimum", "maximum"), [(3, 2), (-1, 4), (0, 0)])
def test_bounds_that_contradict_are_refused(minimum: int, maximum: int) -> None:
    with pytest.raises(ValueError, match="minimum"):
        replace(SETTINGS, minimum=minimum, maximum=maximum)


@pytest.mark.parametrize("attainment", [0.0, 1.0])
def test_a_promise_that_cannot_be_kept_is_refused(attainment: float) -> None:
    with pytest.raises(ValueError, match="attainment"):
        replace(SETTINGS, attainment=attainment)


calls = st.builds(
    Call,
    replicas=st.integers(1, 30),
    lasting=st.integers(1, 30),
    failing=st.integers(0, 5),
    idle=st.booleans(),
    window_full=st.booleans(),
    rested=st.booleans(),
)
sights = st.builds(
    seen,
    st.integers(0, 12),
    st.integers(0, 12),
    told=st.integers(0, 12),
    placeable=st.one_of(st.none(), st.integers(0, 12)),
)


@given(calls, sights, st.booleans())
def test_no_call_passes_the_bounds(call: Call, observation: Observation, sleepy: bool) -> None:
    settings = SLEEPY if sleepy else SETTINGS
    target = bounded(settings, observation, call).replicas
    assert settings.minimum <= target <= settings.maximum


@given(calls, sights, st.integers(1, 10))
def test_a_larger_call_never_asks_for_less(call: Call, observation: Observation, more: int) -> None:
    larger = replace(call, replicas=call.replicas + more, lasting=call.lasting + more)
    assert bounded(SETTINGS, observation, larger).replicas >= bounded(SETTINGS, observation, call).replicas


@given(calls, sights)
def test_nothing_shrinks_without_a_full_window_or_all_pods(call: Call, observation: Observation) -> None:
    if not call.window_full or len(observation.pods) < observation.ready:
        kept = min(SETTINGS.maximum, observation.wanted)
        assert bounded(SETTINGS, observation, call).replicas >= kept
