"""At which load the objectives hold is learned from misses, for steep engines and for shallow traffic; a floor is not chased."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.capacity.miss_curve import Curve, MissCurve, MissEvidence, learned


def after(curve: Curve, loads: list[float], hours: float = 24.0, clump: float = 5.0) -> MissCurve:
    """What is learned from slots of 300 requests whose misses follow the curve."""
    evidence = MissEvidence()
    slots = round(hours * 60)
    for slot in range(slots):
        load = loads[slot % len(loads)]
        evidence = evidence.seen(load, 300.0, 300 * curve.misses(load), 60.0, clump)
    return learned(evidence, "nvidia")


@pytest.mark.parametrize(
    "truth",
    [Curve(0.0, 0.8, 14.0), Curve(0.0, 0.5, 5.0), Curve(0.005, 0.7, 3.0), Curve(0.0, 2.5, 1.2)],
    ids=["steep", "middling", "with a floor", "shallow"],
)
def test_the_load_that_holds_is_found(truth: Curve) -> None:
    curve = after(truth, [0.05, 0.2, 0.4, 0.6])
    for load in (0.2, 0.4, 0.6):
        assert curve.misses(load) == pytest.approx(truth.misses(load), abs=0.01)


def test_nothing_seen_is_cautious() -> None:
    assert 0.2 < learned(MissEvidence(), "nvidia").holds(0.05) < 0.7


def test_other_accelerators_are_believed_to_hold_less() -> None:
    assert learned(MissEvidence(), "cpu").holds(0.05) < learned(MissEvidence(), "nvidia").holds(0.05)


def test_a_load_that_holds_well_lets_a_higher_one_be_tried() -> None:
    before = learned(MissEvidence(), "nvidia").holds(0.05)
    assert after(Curve(0.0, 1.0, 14.0), [0.4], hours=2).holds(0.05) > before


def test_far_beyond_what_was_tried_the_prior_is_believed() -> None:
    curve = after(Curve(0.0, 4.0, 14.0), [0.2, 0.4], hours=48)
    assert curve.misses(0.5) < 0.001
    assert curve.misses(0.8) > 0.3


def test_misses_at_any_load_are_a_floor() -> None:
    curve = after(Curve(0.1, 0.8, 8.0), [0.02, 0.1, 0.3])
    assert curve.floor == pytest.approx(0.1, abs=0.01)
    assert curve.holds(0.05) == 0.0


def test_evidence_fades() -> None:
    bad = MissEvidence()
    for _ in range(120):
        bad = bad.seen(0.3, 300.0, 100.0, 60.0, 5.0)
    good = bad
    for _ in range(24 * 60):
        good = good.seen(0.3, 300.0, 0.0, 60.0, 5.0)
    assert learned(bad, "nvidia").misses(0.3) > 0.2
    assert learned(good, "nvidia").misses(0.3) < 0.01


def test_a_slot_without_requests_teaches_nothing() -> None:
    assert MissEvidence().seen(0.5, 0.0, 0.0, 60.0, 1.0) == MissEvidence()


def test_no_load_misses_the_floor_alone() -> None:
    assert Curve(0.02, 0.5, 5.0).misses(0.0) == 0.02


def test_the_whole_table_may_hold() -> None:
    assert MissCurve((0.0, 0.0, 0.0), 0.0).holds(0.1) == pytest.approx(0.04)


loads = st.floats(0, 3)


@given(st.lists(st.tuples(loads, st.floats(0, 1000), st.floats(0, 1)), max_size=8), loads, loads)
@settings(max_examples=25, deadline=None)
def test_more_load_never_misses_less(
    seen: list[tuple[float, float, float]], one: float, other: float
) -> None:
    evidence = MissEvidence()
    for load, requests, share in seen:
        evidence = evidence.seen(load, requests, share * requests, 60.0, 3.0)
    curve = learned(evidence, "neuron")
    low, high = sorted((one, other))
    assert 0 <= curve.misses(low) <= curve.misses(high) + 1e-12
    assert curve.misses(high) <= 1 + 1e-12
