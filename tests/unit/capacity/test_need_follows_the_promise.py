"""Replicas follow from what they cost and from the misses that they prevent, and never fewer for more work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.capacity.miss_curve import Curve, MissCurve, MissEvidence, learned
from tierwright.capacity.need import Outlook, backlog_load, cheapest, unavoidable
from tierwright.capacity.promise import Misses


def knowing(curve: Curve) -> MissCurve:
    """What is learned of a curve that was seen at all loads for two days."""
    evidence = MissEvidence()
    for slot in range(2 * 288):
        load = 0.1 * (1 + slot % 12)
        evidence = evidence.seen(load, 4.0, 1500.0, 1500 * curve.misses(load, 4.0), 300.0, 5.0)
    return learned(evidence, "nvidia")


CURVE = knowing(Curve(0.0, 0.75, 12.0))
FLOORED = knowing(Curve(0.3, 0.75, 12.0))
SURE = Outlook(((3.0, 1.0),))
RISKY = Outlook(((2.0, 0.8), (7.0, 0.2)))


def cost(outlook: Outlook, replicas: int, price: float) -> float:
    """The cost where nothing is saturated."""
    return replicas + price * outlook.mean * outlook.misses(replicas, CURVE)


def test_the_next_replica_would_save_less_than_it_costs() -> None:
    replicas = cheapest(SURE, CURVE, 100.0, 50)
    assert 4 < replicas < 20
    assert cost(SURE, replicas, 100.0) < cost(SURE, replicas + 1, 100.0)
    assert cost(SURE, replicas, 100.0) < cost(SURE, replicas - 1, 100.0)


def test_risk_costs_replicas() -> None:
    assert RISKY.mean == pytest.approx(SURE.mean)
    assert cheapest(RISKY, CURVE, 100.0, 50) > cheapest(SURE, CURVE, 100.0, 50)


def test_busy_outcomes_count_by_their_requests() -> None:
    expected = (0.8 * 2 * CURVE.misses(0.4, 5) + 0.2 * 7 * CURVE.misses(1.4, 5)) / 3
    assert RISKY.misses(5, CURVE) == pytest.approx(expected)


def test_no_work_calls_for_one() -> None:
    assert cheapest(Outlook(((0.0, 1.0),)), CURVE, 100.0, 50) == 1
    assert Outlook(((0.0, 1.0),)).misses(3, CURVE) == CURVE.misses(0.0, 3)


def test_a_rare_burst_that_ten_replicas_would_hardly_soften_calls_for_none_of_them() -> None:
    rare = Outlook(((0.3, 0.9999), (60.0, 0.0001)))
    assert cheapest(rare, CURVE, 100.0, 24) <= cheapest(Outlook(((0.3, 1.0),)), CURVE, 100.0, 24) + 1


def test_too_much_work_says_so() -> None:
    assert cheapest(Outlook(((500.0, 1.0),)), CURVE, 20.0, 50) == 51
    assert cheapest(Outlook(((40.0, 1.0),)), CURVE, 2.0, 24) == 25


def test_misses_that_no_replica_prevents_are_not_chased() -> None:
    assert unavoidable(CURVE, 0.05) == 0.0
    assert unavoidable(FLOORED, 0.05) == pytest.approx(0.275, abs=0.01)
    assert cheapest(SURE, FLOORED, 20.0, 1000) <= cheapest(SURE, CURVE, 20.0, 1000) + 1


def test_a_backlog_that_drains_in_time_adds_nothing() -> None:
    assert backlog_load(backlog=100, work=0.1, demand=1.0, ready=3, horizon=100.0) == 0.0


def test_a_backlog_that_outlives_the_start_is_spread_over_the_horizon() -> None:
    assert backlog_load(backlog=1000, work=0.5, demand=5.0, ready=2, horizon=100.0) == pytest.approx(5.0)


@given(st.floats(0, 40), st.floats(0, 40), st.floats(2, 1000))
@settings(max_examples=100, deadline=None)
def test_more_work_never_calls_for_less(one: float, other: float, price: float) -> None:
    low, high = sorted((one, other))

    def called(load: float) -> int:
        return cheapest(Outlook(((load, 0.7), (2 * load, 0.3))), CURVE, price, 200)

    assert called(low) <= called(high)


@given(st.floats(0, 40), st.floats(2, 1000), st.floats(2, 1000))
@settings(max_examples=100, deadline=None)
def test_a_dearer_miss_never_calls_for_less(load: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    outlook = Outlook(((load, 1.0),))
    assert cheapest(outlook, CURVE, low, 200) <= cheapest(outlook, CURVE, high, 200)


def test_a_miss_is_worth_more_the_less_may_miss() -> None:
    assert Misses().price(0.01) == pytest.approx(100.0)
    assert Misses().price(0.05) == pytest.approx(20.0)
    assert Misses(dear=0.1).price(0.3) == 2.0


def test_a_day_within_the_promise_cheapens_misses_and_a_bad_one_makes_them_dear() -> None:
    good, bad = Misses(), Misses()
    for _ in range(1440):
        good = good.seen(100.0, 0.0, 60.0, 0.05)
        bad = bad.seen(100.0, 30.0, 60.0, 0.05)
    assert good.dear < Misses().dear / 4
    assert bad.dear == 10.0


def test_the_price_is_left_alone_where_the_promise_is_just_kept() -> None:
    kept = Misses()
    for _ in range(1440):
        kept = kept.seen(100.0, 5.0, 60.0, 0.05)
    assert kept.dear == pytest.approx(Misses().dear)


def test_the_price_rises_sooner_than_it_falls() -> None:
    calm = Misses()
    for _ in range(12 * 60):
        calm = calm.seen(100.0, 0.0, 60.0, 0.05)
    broken = calm
    for _ in range(10 * 60):
        broken = broken.seen(100.0, 20.0, 60.0, 0.05)
    assert broken.dear > Misses().dear > calm.dear


def test_a_burst_that_missed_whole_minutes_is_not_paid_back_for_a_day() -> None:
    usual = Misses()
    for _ in range(1440):
        usual = usual.seen(100.0, 0.5, 60.0, 0.01)
    burst = usual
    for _ in range(5):
        burst = burst.seen(3000.0, 3000.0, 60.0, 0.01)
    for _ in range(6 * 60):
        usual, burst = usual.seen(100.0, 0.5, 60.0, 0.01), burst.seen(100.0, 0.5, 60.0, 0.01)
    assert burst.dear < 2 * usual.dear


def test_a_calm_month_does_not_wind_up() -> None:
    calm = Misses()
    for _ in range(30 * 1440):
        calm = calm.seen(100.0, 0.0, 60.0, 0.05)
    assert calm.dear == 0.1
