"""What was learned survives a restart or a change of leader; damage loses it and no more, and nothing shrinks before a full window."""

import json
import math
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.capacity.tiers import START, Tier, minutes
from tierwright.capacity.decision import Reason
from tierwright.capacity.forecast import Forecast
from tierwright.capacity.season import DAY, WEEK, Season
from tierwright.capacity.state import MOST_BYTES, TierState, dump, load
from tierwright.capacity.step_time import Point, StepPoints


def learned() -> Tier:
    tier = Tier(ready=6)
    tier.run(minutes(30, 30.0))
    return tier


def test_the_model_and_the_forecast_come_back() -> None:
    state = learned().state
    back = load(dump(state))
    assert back is not None
    assert back.forecast.level == pytest.approx(state.forecast.level, rel=1e-4)
    assert back.evidence.likelihood == pytest.approx(state.evidence.likelihood, rel=1e-4, abs=1e-9)
    assert back.step_time is not None
    assert state.step_time is not None
    assert back.step_time.prefill == pytest.approx(state.step_time.prefill, rel=1e-4)
    assert back.mix.requests == pytest.approx(state.mix.requests, rel=1e-4)
    assert back.last_busy == state.last_busy
    assert load(dump(back)) == back


def test_a_fresh_state_comes_back() -> None:
    back = load(dump(TierState()))
    assert back is not None
    assert back.evidence == TierState().evidence
    assert back.forecast.gaps == pytest.approx(TierState().forecast.gaps, rel=1e-4)
    assert replace(back, forecast=TierState().forecast) == TierState()


def test_the_window_begins_anew() -> None:
    back = load(dump(learned().state))
    assert back is not None
    assert (back.rows, back.last_at, back.since) == ((), -math.inf, math.inf)


def test_after_a_restart_nothing_shrinks_before_a_full_window() -> None:
    before = learned()
    back = load(dump(before.state))
    assert back is not None
    after = Tier(state=back, now=before.now + 3600, ready=before.ready)
    held = after.run(minutes(9.5, 1.0))
    assert {decision.replicas for decision in held} == {before.ready}
    assert {decision.reason for decision in held} <= {Reason.STEADY, Reason.WINDOW_NOT_FULL}
    assert held[-1].reason == Reason.WINDOW_NOT_FULL
    after.run(minutes(15, 1.0))
    assert after.ready < before.ready


def test_after_a_restart_growth_is_not_held() -> None:
    back = load(dump(learned().state))
    assert back is not None
    after = Tier(state=back, now=START + 7200, ready=2)
    assert max(decision.replicas or 0 for decision in after.run(minutes(2, 60.0))) > 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "nonsense",
        '{"version":99,"tier":[]}',
        '{"version":1,"tier":[]}',
        '{"version":1}',
        dump(TierState()).replace("Infinity", "1" + "0" * 400).replace('"inf"', "1" + "0" * 400),
    ],
)
def test_damage_loses_the_state(text: str) -> None:
    assert load(text) is None


@pytest.mark.parametrize(("name", "wrong"), [("slots", 1.5), ("level", "nan"), ("losses", 3)])
def test_a_number_of_the_wrong_kind_loses_the_state(name: str, wrong: object) -> None:
    document = json.loads(dump(TierState()))
    forecast = document["tier"][[each.name for each in fields(TierState)].index("forecast")]
    forecast[[each.name for each in fields(Forecast)].index(name)] = wrong
    assert load(json.dumps(document)) is None


def places(value: object, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Where something lies in nested lists; of long lists the first items."""
    if not isinstance(value, list):
        return [path]
    return [
        path,
        *(place for number, part in enumerate(value[:3]) for place in places(part, (*path, number))),
    ]


DOCUMENT = json.loads(dump(learned().state))
junk: st.SearchStrategy[object] = st.sampled_from(("x", None, [], [[]], {}, "nan", True, [1, 2]))


@given(st.sampled_from(places(DOCUMENT["tier"])), junk)
@settings(max_examples=50, deadline=None)
def test_any_damage_is_lost_state_or_a_usable_one(place: tuple[int, ...], wrong: object) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    parent, last = document, "tier"
    for number in place:
        parent, last = parent[last], number  # type: ignore[assignment]
    parent[last] = wrong
    back = load(json.dumps(document))
    assert back is None or Tier(state=back, ready=3).tick(5.0).reason in set(Reason)


def test_the_largest_state_is_bounded() -> None:
    full = Tier(ready=5)
    full.run(minutes(90, 40.0))
    point = Point(123.456789, 123456.789, 1234.56789, 0.123456789)
    season = Season(day=(1.234567,) * DAY, week=(12.34567,) * WEEK)
    state = replace(
        full.state,
        points=StepPoints(tuple((point,) * 16 for _ in range(12))),
        forecast=replace(full.state.forecast, season=season, gaps=(0.123456789,) * len(Forecast().gaps)),
    )
    assert len(dump(state)) < 0.6 * MOST_BYTES


def test_a_state_without_bound_is_refused() -> None:
    endless = replace(TierState(), points=StepPoints(((Point(1.1, 2.2, 3.3, 4.4),) * 9999,)))
    with pytest.raises(ValueError, match="at most"):
        dump(endless)
