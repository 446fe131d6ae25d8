"""One tick of one tier, from top to bottom: observe, learn, foresee, decide. Read this file first.

Up at once and by the whole gap, down slowly and only when fewer hold the forecast; without data nothing changes.
"""

from dataclasses import dataclass, replace
from typing import Final

from tierwright.capacity.bounds import Call, bounded, without_data
from tierwright.capacity.decision import Decision, Inputs
from tierwright.capacity.forecast import SLOT
from tierwright.capacity.learn import learn
from tierwright.capacity.plan import Plan, planned
from tierwright.capacity.samples import Observation, row_of
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import Needed, Slot, TierState

_GAP: Final = 90.0
"""Seconds without data after which the window begins anew."""
_LATE: Final = 1.5
"""A start that takes this many times the 90th percentile is counted on no longer."""


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one tick."""

    state: TierState
    decision: Decision


def step(settings: TierSettings, state: TierState, seen: Observation, now: float) -> Step:
    """Decide how many replicas the tier should have at `now`, seconds since 1970. Ticks must come in order of time."""
    last_down = now if seen.wanted < state.wanted else state.last_down
    state = replace(state, starts=state.starts.seen(seen.started), wanted=seen.wanted, last_down=last_down)
    p90 = state.starts.quantile(0.9, settings.cold_start)
    failing = sum(age > _LATE * p90 for age in seen.starting)
    inputs = Inputs(seen.ready, len(seen.starting), failing, seen.wanted)
    row = row_of(seen, now, settings.warm_up)
    if row is None:
        replicas, reason = without_data(settings, seen)
        return Step(state, Decision(replicas, reason, inputs))
    if now - state.last_at > _GAP:
        state = replace(state, since=now, rows=(), slot=Slot(), load_before=0.0)
    horizon, hold = p90 + settings.tick + settings.lag, max(settings.hold, p90)
    state = learn(replace(state, last_at=now), settings, row, seen.pods, horizon)
    plan = planned(state, settings, seen.ready, seen.wanted, now, horizon, hold)
    state = replace(state, needed=_remembered(state.needed, now, plan.replicas, hold))
    inputs = replace(inputs, plan=plan)
    outcome = bounded(settings, seen, _call(settings, state, plan, failing, hold, now))
    return Step(state, Decision(outcome.replicas, outcome.reason, inputs, outcome.unplaced))


def _call(
    settings: TierSettings, state: TierState, plan: Plan, failing: int, hold: float, now: float
) -> Call:
    seen_for = now - state.since
    return Call(
        replicas=plan.replicas,
        lasting=max(plan.lasting, *(each.replicas for each in state.needed)),
        failing=failing,
        idle=seen_for >= hold and now - state.last_busy >= hold,
        window_full=seen_for >= hold,
        rested=now - state.last_down >= settings.between_downs,
    )


def _remembered(needed: tuple[Needed, ...], now: float, replicas: int, hold: float) -> tuple[Needed, ...]:
    """The most that was called for in each slot of the hold."""
    kept = tuple(each for each in needed if each.at > now - hold)
    if kept and kept[-1].at // SLOT == now // SLOT:
        return (*kept[:-1], Needed(now, max(kept[-1].replicas, replicas)))
    return (*kept, Needed(now, replicas))
