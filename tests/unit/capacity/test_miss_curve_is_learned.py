"""At which load the objectives hold is learned from misses, for steep engines and for shallow traffic; a floor is not chased."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.capacity.miss_curve import Curve, MissCurve, MissEvidence, learned


def after(
    curve: Curve, loads: list[float], hours: float = 24.0, clump: float = 5.0, replicas: float = 2.0
) -> MissCurve:
    """What is learned from slots of 1,500 requests in 300 s whose misses follow the curve."""
    evidence = MissEvidence()
    slots = round(hours * 12)
    for slot in range(slots):
        load = loads[slot % len(loads)]
        missed = 1500 * curve.misses(load, replicas)
        evidence = evidence.seen(load, replicas, 1500.0, missed, 300.0, clump)
    return learned(evidence, "nvidia")


@pytest.mark.parametrize(
    "truth",
    [Curve(0.0, 1.0, 14.0), Curve(0.0, 0.55, 6.0), Curve(0.005, 0.7, 3.0), Curve(0.0, 2.5, 4.0, 0.2, 2.0)],
    ids=["steep", "middling", "with a floor", "in bursts"],
)
def test_the_load_that_holds_is_found(truth: Curve) -> None:
    curve = after(truth, [0.05, 0.2, 0.4, 0.6])
    for load in (0.2, 0.4, 0.6):
        assert curve.misses(load, 2) == pytest.approx(truth.misses(load, 2), abs=0.03)


def test_one_replica_at_night_and_four_by_day_are_told_apart() -> None:
    evidence, truth = MissEvidence(), Curve(0.0, 0.8, 8.0, 0.3, 2.0)
    for slot in range(288):
        replicas = 1.0 if slot % 2 else 4.0
        evidence = evidence.seen(0.2, replicas, 1500.0, 1500 * truth.misses(0.2, replicas), 300.0, 5.0)
    curve = learned(evidence, "nvidia")
    assert curve.misses(0.2, 1) == pytest.approx(truth.misses(0.2, 1), abs=0.01)
    assert curve.misses(0.2, 4) == pytest.approx(truth.misses(0.2, 4), abs=0.003)
    assert curve.floor < 0.004


def test_more_replicas_at_one_load_never_miss_more() -> None:
    curve = after(Curve(0.01, 0.6, 5.0, 0.3, 1.5), [0.1, 0.3, 0.5])
    shares = [curve.misses(0.3, replicas) for replicas in range(1, 20)]
    assert shares == sorted(shares, reverse=True)


def test_more_replicas_are_saturated_later_and_more_steeply() -> None:
    curve = Curve(0.0, 0.9, 8.0)
    assert curve.misses(0.6, 1) > 0.4 > 0.3 > curve.misses(0.6, 2) > 2 * curve.misses(0.6, 6)
    assert curve.misses(0.6, 16) == curve.misses(0.6, 160)


def test_nothing_seen_is_cautious() -> None:
    assert 0.2 < learned(MissEvidence(), "nvidia").holds(0.05, 2) < 0.7


def test_other_accelerators_are_believed_to_hold_less() -> None:
    assert learned(MissEvidence(), "cpu").holds(0.1, 4) < learned(MissEvidence(), "nvidia").holds(0.1, 4)


def test_a_load_that_holds_well_lets_a_higher_one_be_tried() -> None:
    before = learned(MissEvidence(), "nvidia").holds(0.05, 2)
    assert after(Curve(0.0, 1.0, 12.0), [0.4], hours=2).holds(0.05, 2) > before


def test_far_beyond_what_was_tried_the_prior_is_believed() -> None:
    curve = after(Curve(0.0, 4.0, 12.0), [0.2, 0.4], hours=48)
    assert curve.misses(0.5, 2) < 0.002
    assert curve.misses(0.8, 2) > 0.3


def test_a_load_that_held_yesterday_is_still_known_after_a_quiet_night() -> None:
    evidence = MissEvidence()
    for _ in range(48):
        evidence = evidence.seen(0.5, 3.0, 1500.0, 0.0, 300.0, 5.0)
    for _ in range(12 * 12):
        evidence = evidence.seen(0.05, 1.0, 150.0, 0.0, 300.0, 5.0)
    assert learned(evidence, "nvidia").holds(0.01, 3) >= 0.48


def test_misses_at_any_load_are_a_floor() -> None:
    curve = after(Curve(0.1, 0.8, 8.0), [0.02, 0.1, 0.3], replicas=6)
    assert curve.floor == pytest.approx(0.1, abs=0.01)
    assert curve.holds(0.05, 6) == 0.0


def test_evidence_fades() -> None:
    bad = MissEvidence()
    for _ in range(24):
        bad = bad.seen(0.3, 2.0, 1500.0, 500.0, 300.0, 5.0)
    good = bad
    for _ in range(24 * 12):
        good = good.seen(0.3, 2.0, 1500.0, 0.0, 300.0, 5.0)
    assert learned(bad, "nvidia").misses(0.3, 2) > 0.2
    assert learned(good, "nvidia").misses(0.3, 2) < 0.01


def test_a_slot_without_requests_teaches_nothing() -> None:
    assert MissEvidence().seen(0.5, 2.0, 0.0, 0.0, 60.0, 1.0) == MissEvidence()


def test_no_load_misses_the_floor_alone() -> None:
    assert Curve(0.02, 0.5, 5.0, 0.5, 1.5).misses(0.0) == pytest.approx(0.02)


def test_the_whole_grid_may_hold() -> None:
    assert learned(MissEvidence(), "nvidia").holds(1.0, 1) == pytest.approx(2.0)


loads = st.floats(0, 3)


@given(
    st.lists(st.tuples(loads, st.floats(0, 1000), st.floats(0, 1)), max_size=8),
    loads,
    loads,
    st.integers(1, 40),
)
@settings(max_examples=25, deadline=None)
def test_more_load_never_misses_less(
    seen: list[tuple[float, float, float]], one: float, other: float, replicas: int
) -> None:
    evidence = MissEvidence()
    for load, requests, share in seen:
        evidence = evidence.seen(load, replicas, requests, share * requests, 60.0, 3.0)
    curve = learned(evidence, "neuron")
    low, high = sorted((one, other))
    assert -1e-12 <= curve.misses(low, replicas) <= curve.misses(high, replicas) + 1e-12
    assert curve.misses(high, replicas) <= 1 + 1e-12
