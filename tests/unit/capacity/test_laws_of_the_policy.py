"""Laws that hold for every tier and every history: bounds, no shrinking without data, more demand never fewer replicas."""

import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.capacity.tiers import SETTINGS, START, WORK, Tier, fleet, minutes, missed, pod
from tierwright.capacity.policy import step
from tierwright.capacity.samples import Judged, Observation, PodSample
from tierwright.capacity.state import TierState

odd = st.one_of(st.none(), st.floats(0, 1e6))
judged = st.one_of(st.none(), st.builds(Judged, st.floats(0, 1e4), st.floats(0, 1e4)))
pods = st.builds(
    PodSample,
    seconds=st.floats(0, 100),
    age=st.floats(0, 1e6),
    arrivals=odd,
    running=odd,
    waiting=odd,
    prefilled=odd,
    prompt_tokens=odd,
    cached_tokens=odd,
    output_tokens=odd,
    steps=odd,
    token_seconds=odd,
    context_tokens=odd,
    first_token=judged,
    per_token=judged,
)
sights = st.builds(
    Observation,
    pods=st.lists(pods, max_size=4).map(tuple),
    ready=st.integers(0, 6),
    wanted=st.integers(0, 8),
    starting=st.lists(st.floats(0, 1e4), max_size=3).map(tuple),
    started=st.lists(st.floats(0, 1e4), max_size=3).map(tuple),
    placeable=st.one_of(st.none(), st.integers(0, 10)),
    queued=st.floats(0, 1e4),
)


@given(st.lists(st.tuples(sights, st.floats(0.1, 500)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_whatever_is_seen_the_bounds_hold(history: list[tuple[Observation, float]]) -> None:
    state, now = TierState(), START
    for seen, pause in history:
        now += pause
        outcome = step(SETTINGS, state, seen, now)
        state = outcome.state
        replicas = outcome.decision.replicas
        assert replicas is None or SETTINGS.minimum <= replicas <= SETTINGS.maximum
        telling = [p for p in seen.pods if p.arrivals is not None and p.seconds > 0]
        if seen.ready and not telling and seen.wanted in range(SETTINGS.minimum, SETTINGS.maximum + 1):
            assert replicas is None or replicas >= seen.wanted


@given(st.integers(0, 10**6), st.floats(1, 30), st.floats(1.0, 3.0))
@settings(max_examples=6, deadline=None)
def test_more_arrivals_never_call_for_fewer_replicas(seed: int, rate: float, factor: float) -> None:
    draw = random.Random(seed)
    tier = Tier(ready=4)
    tier.run(rate * draw.uniform(0.7, 1.3) for _ in range(180))
    calls = []
    for arriving in (rate, rate * factor):
        seen = Observation(fleet(arriving, tier.ready), ready=tier.ready, wanted=tier.ready)
        plan = step(tier.settings, tier.state, seen, tier.now + 10).decision.inputs.plan
        assert plan is not None
        calls.append(plan.replicas)
    assert calls[0] <= calls[1]


def test_the_same_history_gives_the_same_decisions() -> None:
    one, other = Tier(), Tier()
    rates = [*minutes(10, 5.0), *minutes(10, 25.0)]
    assert one.run(rates) == other.run(rates)
    assert one.state == other.state


def test_a_step_up_is_met_at_once_and_by_the_whole_gap() -> None:
    tier = Tier(ready=3)
    tier.run(minutes(180, 10.0))
    calls = [decision.replicas or 0 for decision in tier.run(minutes(15, 60.0))]
    assert calls[11] > 60 * WORK
    assert calls[11] >= 0.8 * calls[-1]
    assert calls[:60] == sorted(calls[:60])


def test_a_step_down_waits_for_the_hold_and_goes_one_by_one() -> None:
    tier = Tier(ready=8)
    plan = tier.run(minutes(60, 60.0))[-1].inputs.plan
    assert plan is not None
    sizes = []
    for _ in range(6 * 60):
        tier.tick(5.0)
        sizes.append(tier.wanted)
    assert min(sizes[: 9 * 6]) >= plan.replicas > sizes[-1]
    assert all(later >= sooner - max(1, sooner // 10) for sooner, later in pairwise(sizes))
    down = [number for number, (a, b) in enumerate(pairwise(sizes)) if b < a]
    assert all(later - sooner >= 6 for sooner, later in pairwise(down))


def test_misses_raise_the_replicas() -> None:
    good, bad = Tier(ready=3), Tier(ready=3)
    for _ in range(6 * 60):
        good.tick(15.0)
        share = missed(15.0 * WORK / bad.ready, middle=0.3)
        early = Judged(150.0 / bad.ready, 150.0 / bad.ready * share)
        bad.tick(
            15.0,
            change=lambda seen, e=early: replace(seen, pods=fleet(15.0, seen.ready, first_token=e)),  # type: ignore[misc]
        )
    assert bad.wanted > good.wanted


def test_bursts_get_headroom_before_anything_else_is_known() -> None:
    calm, bursty = Tier(ready=4), Tier(ready=4)
    for number in range(90):
        calm.tick(20.0)
        bursty.tick(40.0 if number // 6 % 2 else 0.0)
    quiet, loud = calm.decisions[-1].inputs.plan, bursty.decisions[-1].inputs.plan
    assert quiet is not None
    assert loud is not None
    assert loud.dispersion > 10 * quiet.dispersion
    assert loud.replicas > quiet.replicas


def test_measured_starts_set_the_horizon() -> None:
    tier = Tier(ready=2)
    tier.tick(change=lambda seen: replace(seen, started=(400.0,) * 12))
    plan = tier.tick().inputs.plan
    assert plan is not None
    assert plan.horizon == 400.0 + tier.settings.tick + tier.settings.lag


def test_one_silent_pod_holds_the_size() -> None:
    tier = Tier(ready=6)
    tier.run(minutes(60, 40.0))
    before = tier.wanted
    for _ in range(200):
        tier.tick(1.0, change=lambda seen: replace(seen, pods=(pod(1.0),) * (seen.ready - 1)))
    assert tier.wanted == before


def test_a_smaller_number_that_nobody_follows_stands_still() -> None:
    """Mode Recommend, a paused tier: what is recommended must not go to and fro once a minute."""
    state, calls = TierState(), []
    for tick in range(180):
        now = START + 10 * tick
        outcome = step(SETTINGS, state, Observation(fleet(0.0, 5), ready=5, wanted=5), now)
        state = outcome.state
        calls.append(outcome.decision.replicas)
    assert set(calls[-90:]) == {4}
