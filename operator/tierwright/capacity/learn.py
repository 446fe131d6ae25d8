"""Takes one row into what is known of a tier: at each tick the newest rows, at each full slot the model and the forecast."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tierwright.capacity.forecast import SLOT
from tierwright.capacity.miss_curve import learned
from tierwright.capacity.need import unavoidable
from tierwright.capacity.samples import PodSample, Row
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import Slot, TierState
from tierwright.capacity.work import PRIOR_STEP_TIME

_MOST_ROWS: Final = 120
_MOST_FITS: Final = 1440
"""Slots over which the step time is a mean of its fits: a load that is measured by another rule each hour teaches nothing of what holds."""


def learn(
    state: TierState, settings: TierSettings, row: Row, pods: Sequence[PodSample], horizon: float
) -> TierState:
    """The state after one more row; `horizon` is how far ahead a replica asked for now is ready."""
    busy = row.arrivals > 0 or row.backlog > 0 or row.running > 0
    rows = (*(each for each in state.rows if each.at > row.at - SLOT), row)[-_MOST_ROWS:]
    slot = state.slot
    state = replace(
        state,
        rows=rows,
        mix=state.mix.seen(row),
        last_busy=row.at if busy else state.last_busy,
        slot=replace(
            slot,
            seconds=slot.seconds + row.seconds,
            replica_seconds=slot.replica_seconds + row.ready * row.seconds,
            arrivals=slot.arrivals + row.arrivals,
            requests=slot.requests + row.requests,
            misses=slot.misses + row.misses,
        ),
    )
    return state if state.slot.seconds < SLOT else _closed(state, settings, row, pods, horizon)


def work_of(state: TierState, settings: TierSettings) -> float:
    """Seconds of engine time per request; zero before any request was seen."""
    return state.mix.work(state.step_time or PRIOR_STEP_TIME[settings.accelerator]) or 0.0


def _closed(
    state: TierState, settings: TierSettings, row: Row, pods: Sequence[PodSample], horizon: float
) -> TierState:
    """With the full slot learned from. Work that waited at its start is part of its load, else misses of a backlog would be blamed on a low load."""
    slot = state.slot
    points = state.points.seen(pods, settings.warm_up)
    fits = min(_MOST_FITS, state.fits + 1)
    fitted = points.fit(PRIOR_STEP_TIME[settings.accelerator])
    step_time = (state.step_time or fitted).moved(fitted, 1 / fits)
    state = replace(state, points=points, step_time=step_time, fits=fits)
    work = work_of(state, settings)
    load = work * (slot.arrivals + slot.backlog_before) / slot.replica_seconds
    allowed = 1 - settings.attainment
    dispersion = state.dispersion.seen(slot.arrivals * SLOT / slot.seconds)
    conceded = unavoidable(learned(state.evidence, settings.accelerator), allowed)
    missed = max(0.0, slot.misses - conceded * slot.requests)
    return replace(
        state,
        slot=Slot(backlog_before=row.backlog),
        load_before=load,
        evidence=state.evidence.seen(
            max(load, state.load_before),
            slot.replica_seconds / slot.seconds,
            slot.requests,
            slot.misses,
            slot.seconds,
            dispersion.index,
        ),
        misses=state.misses.seen(slot.requests, missed, slot.seconds, allowed),
        dispersion=dispersion,
        forecast=state.forecast.seen(row.at, slot.seconds, work * slot.arrivals / slot.seconds, horizon),
    )
