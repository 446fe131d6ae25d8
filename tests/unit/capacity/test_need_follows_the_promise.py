"""Replicas follow from the expected misses: enough to keep the promise, no more, and never fewer for more work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.capacity.miss_curve import Curve, Mean, MissCurve
from tierwright.capacity.need import Outlook, backlog_load, replicas_for, unavoidable
from tierwright.capacity.promise import Misses


def exactly(curve: Curve) -> MissCurve:
    """As if nothing else were possible."""
    mean = Mean(tuple(1 - curve.misses(place * 0.02) for place in range(101)), ((0.0,) * 101,) * 2)
    return MissCurve(mean, mean, 10.0, curve.floor)


CURVE = exactly(Curve(0.0, 0.7, 8.0))
FLOORED = exactly(Curve(0.2, 0.7, 8.0))
SURE = Outlook(((3.0, 1.0),))
RISKY = Outlook(((2.0, 0.8), (7.0, 0.2)))


def test_a_sure_load_is_spread_to_where_the_promise_holds() -> None:
    replicas = replicas_for(SURE, CURVE, 0.05, 50)
    assert CURVE.misses(3.0 / replicas, 1) <= 0.05 < CURVE.misses(3.0 / (replicas - 1), 1)


def test_risk_costs_replicas() -> None:
    assert RISKY.mean == pytest.approx(SURE.mean)
    assert replicas_for(RISKY, CURVE, 0.05, 50) > replicas_for(SURE, CURVE, 0.05, 50)


def test_busy_outcomes_count_by_their_requests() -> None:
    expected = (0.8 * 2 * CURVE.misses(0.4, 1) + 0.2 * 7 * CURVE.misses(1.4, 1)) / 3
    assert RISKY.misses(5, CURVE) == pytest.approx(expected)


def test_no_work_calls_for_one() -> None:
    assert replicas_for(Outlook(((0.0, 1.0),)), CURVE, 0.05, 50) == 1


def test_too_much_work_says_so() -> None:
    assert replicas_for(Outlook(((500.0, 1.0),)), CURVE, 0.05, 50) == 51


def test_misses_that_no_replica_prevents_are_not_chased() -> None:
    assert unavoidable(CURVE, 0.05) == 0.0
    assert unavoidable(FLOORED, 0.05) == pytest.approx(0.175)
    chased = replicas_for(SURE, FLOORED, 0.05 + unavoidable(FLOORED, 0.05), 1000)
    assert chased <= 2 * replicas_for(SURE, CURVE, 0.05, 1000)


def test_a_backlog_that_drains_in_time_adds_nothing() -> None:
    assert backlog_load(backlog=100, work=0.1, demand=1.0, ready=3, horizon=100.0) == 0.0


def test_a_backlog_that_outlives_the_start_is_spread_over_the_horizon() -> None:
    assert backlog_load(backlog=1000, work=0.5, demand=5.0, ready=2, horizon=100.0) == pytest.approx(5.0)


@given(st.floats(0, 40), st.floats(0, 40), st.floats(0.001, 0.3))
@settings(max_examples=100, deadline=None)
def test_more_work_never_calls_for_less(one: float, other: float, allowed: float) -> None:
    low, high = sorted((one, other))

    def called(load: float) -> int:
        return replicas_for(Outlook(((load, 0.7), (2 * load, 0.3))), CURVE, allowed, 200)

    assert called(low) <= called(high)


@given(st.floats(0, 40), st.floats(0.001, 0.3), st.floats(0.001, 0.3))
@settings(max_examples=100, deadline=None)
def test_a_stricter_promise_never_calls_for_less(load: float, one: float, other: float) -> None:
    strict, loose = sorted((one, other))
    outlook = Outlook(((load, 1.0),))
    assert replicas_for(outlook, CURVE, strict, 200) >= replicas_for(outlook, CURVE, loose, 200)


def test_a_day_within_the_promise_eases_the_plan_and_a_bad_one_tightens_it() -> None:
    good, bad = Misses(), Misses()
    for _ in range(1440):
        good = good.seen(100.0, 0.0, 60.0, 0.05)
        bad = bad.seen(100.0, 30.0, 60.0, 0.05)
    assert good.ease > 2.9 * Misses().ease
    assert bad.ease == 0.5


def test_a_plan_is_left_alone_where_the_promise_is_just_kept() -> None:
    kept = Misses()
    for _ in range(1440):
        kept = kept.seen(100.0, 5.0, 60.0, 0.05)
    assert kept.ease == pytest.approx(Misses().ease)


def test_a_broken_promise_tightens_sooner_than_a_kept_one_eases() -> None:
    eased = Misses()
    for _ in range(12 * 60):
        eased = eased.seen(100.0, 0.0, 60.0, 0.05)
    broken = eased
    for _ in range(10 * 60):
        broken = broken.seen(100.0, 20.0, 60.0, 0.05)
    assert broken.ease < Misses().ease < eased.ease


def test_a_burst_that_missed_whole_minutes_is_not_paid_back_for_a_day() -> None:
    usual = Misses()
    for _ in range(1440):
        usual = usual.seen(100.0, 0.5, 60.0, 0.01)
    burst = usual
    for _ in range(5):
        burst = burst.seen(3000.0, 3000.0, 60.0, 0.01)
    for _ in range(6 * 60):
        usual, burst = usual.seen(100.0, 0.5, 60.0, 0.01), burst.seen(100.0, 0.5, 60.0, 0.01)
    assert burst.ease > usual.ease / 2


def test_quiet_moments_may_miss_a_greater_share_than_busy_ones() -> None:
    day = Misses()
    for _ in range(1440):
        day = day.seen(120.0, 1.2, 60.0, 0.01)
    quiet, usual, busy = (day.allowed(0.01, rate) for rate in (0.5, 2.0, 8.0))
    assert quiet == pytest.approx(2 * usual)
    assert busy == pytest.approx(usual / 2)
    assert day.allowed(0.01, 0.0) == pytest.approx(usual)


def test_a_calm_month_does_not_wind_up() -> None:
    calm = Misses()
    for _ in range(30 * 1440):
        calm = calm.seen(100.0, 0.0, 60.0, 0.05)
    assert calm.ease == 6.0
    assert calm.allowed(0.3, 0.01) == 0.5
