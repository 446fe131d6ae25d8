"""Demand is foretold: level, growth, time of day and week, and how far it was off; a burst is headroom, not a trend."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.capacity.dispersion import Dispersion
from tierwright.capacity.forecast import EXPERTS, Forecast
from tierwright.capacity.season import DAY, WEEK, Season
from tierwright.capacity.starts import Starts

MINUTE, HOUR, DAYS = 60.0, 3600.0, 86_400.0
HORIZON = 200.0


def daily(at: float) -> float:
    """Demand between 1 and 9 replicas, highest at noon, with a steep edge at eight."""
    return 5 - 4 * math.cos(2 * math.pi * at / DAYS) + (3 if 8 * HOUR <= at % DAYS < 18 * HOUR else 0)


def constant(at: float) -> float:
    return 4.0


def grown(forecast: Forecast, begin: float, end: float, demand: object) -> Forecast:
    assert callable(demand)
    at = begin
    while at < end:
        at += MINUTE
        forecast = forecast.seen(at, MINUTE, demand(at), HORIZON)
    return forecast


def test_a_level_stays_a_level() -> None:
    forecast = grown(Forecast(), 0, 3 * HOUR, constant)
    assert forecast.expected(3 * HOUR, 3 * HOUR + HORIZON) == pytest.approx(4.0)


def test_growth_is_carried_on_and_capped() -> None:
    ramp = grown(Forecast(), 0, HOUR, lambda at: 1 + at / 600)
    growing = ramp.by_expert(HOUR, HOUR + HORIZON)[EXPERTS.index("Growth")]
    assert growing == pytest.approx(1 + (HOUR + HORIZON) / 600, rel=0.1)
    jump = ramp.seen(HOUR + MINUTE, MINUTE, 1000.0, HORIZON)
    most = jump.by_expert(HOUR + MINUTE, HOUR + MINUTE + HORIZON)[EXPERTS.index("Growth")]
    assert most <= jump.level * 1.6**3


def test_the_morning_edge_is_foretold_after_two_days() -> None:
    forecast = grown(Forecast(), 0, 2 * DAYS + 8 * HOUR - 2 * MINUTE, daily)
    now = 2 * DAYS + 8 * HOUR - 2 * MINUTE
    before, foretold, real = daily(now), forecast.expected(now, now + 20 * MINUTE), daily(now + 20 * MINUTE)
    assert before < foretold
    assert abs(foretold - real) < abs(before - real)
    assert forecast.weights()[EXPERTS.index("Day")] > forecast.weights()[EXPERTS.index("Level")]


def test_weekends_are_foretold_by_the_week() -> None:
    def weekly(at: float) -> float:
        return daily(at) * (0.3 if at % (7 * DAYS) >= 5 * DAYS else 1.0)

    season = Season()
    at = 0.0
    while at < 14 * DAYS:
        at += 600.0
        season = season.seen(at, 600.0, weekly(at - 300))
    noon_of_day_six = 5 * DAYS + 12 * HOUR
    assert season.of_week(noon_of_day_six) == pytest.approx(weekly(noon_of_day_six), rel=0.05)


def test_a_time_that_was_never_seen_is_unknown() -> None:
    assert Season().of_day(0.0) is None
    assert Season().of_week(0.0) is None


def test_a_bin_that_was_hardly_seen_is_left_out() -> None:
    season = Season().seen(60.0, 60.0, 5.0).seen(700.0, 60.0, 5.0)
    assert set(season.day) == {-1.0}


def test_seasons_wrap_around_midnight() -> None:
    season = Season(day=tuple(float(number) for number in range(DAY)), week=(1.0,) * WEEK)
    assert season.of_day(0.0) == pytest.approx((DAY - 1) / 2)
    assert season.of_week(0.0) == 1.0


def test_errors_that_were_measured_become_the_outlook() -> None:
    wild = grown(Forecast(), 0, 12 * HOUR, lambda at: 4.0 if at % 600 else 12.0)
    calm = grown(Forecast(), 0, 12 * HOUR, constant)

    def above(forecast: Forecast, load: float) -> float:
        return sum(weight for each, weight in forecast.outlook(4.0).loads if each > load)

    assert above(wild, 8.0) > 0.05
    assert above(calm, 8.0) < 0.01
    assert sum(weight for _, weight in wild.outlook(4.0).loads) == pytest.approx(1, abs=0.02)


def test_what_is_certain_is_added_to_every_outcome() -> None:
    forecast = Forecast()
    assert forecast.outlook(2.0, more=3.0).mean == pytest.approx(forecast.outlook(2.0).mean + 3.0)


@given(st.lists(st.floats(0, 50), max_size=30), st.floats(0, 20), st.floats(0, 20))
@settings(max_examples=30, deadline=None)
def test_the_outlook_rises_with_what_is_expected(demands: list[float], one: float, other: float) -> None:
    forecast = Forecast()
    for number, demand in enumerate(demands):
        forecast = forecast.seen(MINUTE * (number + 1), MINUTE, demand, HORIZON)
    low, high = sorted((one, other))
    assert 0 <= forecast.outlook(low).mean <= forecast.outlook(high).mean + 1e-9


def test_forecasts_whose_time_passed_in_an_outage_are_not_judged() -> None:
    before = grown(Forecast(), 0, HOUR, constant)
    after = before.seen(3 * HOUR, MINUTE, 40.0, HORIZON)
    assert after.gaps == before.gaps
    assert [each.due for each in after.pending] == [3 * HOUR + HORIZON]


def test_what_is_pending_is_bounded() -> None:
    forecast = Forecast()
    for number in range(500):
        forecast = forecast.seen(MINUTE * (number + 1), MINUTE, 1.0, 1e9)
    assert len(forecast.pending) == 64


def test_poisson_arrivals_have_an_index_of_one() -> None:
    assert Dispersion().index == 1.0
    assert Dispersion().seen(0.0).index == 1.0


def test_bursts_raise_the_index_and_a_trend_does_not() -> None:
    bursts, trend = Dispersion(), Dispersion()
    for slot in range(300):
        bursts = bursts.seen(500.0 if slot % 5 == 0 else 50.0)
        trend = trend.seen(100.0 + slot)
    assert bursts.index > 100
    assert trend.index < 1.5


def test_headroom_is_that_of_compound_arrivals() -> None:
    dispersion = Dispersion(count=60.0, spread=240.0, last=60.0)
    assert dispersion.headroom(rate=1.0, work=0.5, seconds=100.0, deviations=2.0) == pytest.approx(
        2 * 0.5 * math.sqrt(4 * 1.0 / 100)
    )
    assert dispersion.headroom(1.0, 0.5, 0.0, 2.0) == 0.0


def test_starts_begin_with_the_guess_and_follow_what_was_measured() -> None:
    assert Starts().quantile(0.9, 180.0) == 180.0
    assert Starts().seen((60.0,)).quantile(0.9, 180.0) == 180.0
    measured = Starts().seen(tuple(float(seconds) for seconds in range(60, 80)))
    assert measured.quantile(0.5, 180.0) == pytest.approx(69.5)
    assert measured.quantile(0.9, 180.0) == pytest.approx(77.1)


def test_starts_are_bounded_and_nonsense_is_left_out() -> None:
    starts = Starts().seen((0.0, -5.0)).seen(tuple(float(n) for n in range(1, 100)))
    assert len(starts.seconds) == 32
    assert min(starts.seconds) == 68.0
