"""From the replicas that are called for to those that are asked for: floors, ceilings, steps, the hold, and what the pool has room for."""

from dataclasses import dataclass

from tierwright.capacity.decision import Reason
from tierwright.capacity.samples import Observation
from tierwright.capacity.settings import TierSettings


@dataclass(frozen=True, slots=True)
class Call:
    """What is called for, and what stands against less."""

    replicas: int
    """Called for now."""
    lasting: int
    """Most that was or will be called for, from the hold that has passed to the one that comes."""
    failing: int
    """Starting replicas that are counted on no longer."""
    idle: bool
    """No request for the whole hold."""
    window_full: bool
    """A whole window was seen since data last began."""
    rested: bool
    """The last removal is long enough ago."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """What is asked for."""

    replicas: int
    reason: Reason
    unplaced: int = 0


def bounded(settings: TierSettings, seen: Observation, call: Call) -> Bounded:
    """Apply every bound. The result lies between minimum and maximum, whatever the call."""
    floor = settings.minimum if call.idle else max(1, settings.minimum)
    held = min(settings.maximum, max(floor, seen.wanted))
    want = floor if call.idle else min(settings.maximum, max(floor, call.replicas))
    # Where nothing runs, nothing shows that a further start would fare better.
    replaced = min(settings.maximum, want + min(call.failing, seen.ready))
    if replaced > held:
        return _up(settings, seen, held, want, replaced)
    if want >= held:
        return _level(settings, seen, call, held)
    return _down(settings, seen, call, held, floor)


def without_data(settings: TierSettings, seen: Observation) -> tuple[int | None, Reason]:
    """No row: whatever is asked for stays, but for the bounds that the user sets and the first replica of a tier that sleeps."""
    if seen.wanted == 0 and seen.queued > 0:
        return (None, Reason.POOL_FULL) if seen.placeable == 0 else (max(1, settings.minimum), Reason.WOKEN)
    if seen.wanted < settings.minimum:
        return settings.minimum, Reason.AT_MINIMUM
    if seen.wanted > settings.maximum:
        return settings.maximum, Reason.AT_MAXIMUM
    if seen.ready:
        return None, Reason.NO_METRICS
    return None, Reason.STARTING if seen.wanted else Reason.IDLE


def _up(settings: TierSettings, seen: Observation, held: int, want: int, replaced: int) -> Bounded:
    target, reason = replaced, Reason.DEMAND_GREW if want > held else Reason.STARTS_FAIL
    if settings.most_up is not None and target > held + settings.most_up:
        target, reason = held + settings.most_up, Reason.STEP_LIMITED
    if seen.placeable is None:
        return Bounded(target, reason)
    # Replicas that were asked for and wait for a node stay asked for: a cluster autoscaler may be about to bring it.
    room = max(seen.placeable, seen.ready, held)
    if target <= room:
        return Bounded(target, reason)
    return Bounded(room, Reason.POOL_FULL, unplaced=target - room)


def _level(settings: TierSettings, seen: Observation, call: Call, held: int) -> Bounded:
    waiting = seen.wanted - seen.ready
    if seen.placeable is not None and waiting > 0 and held > max(seen.placeable, seen.ready):
        return Bounded(held, Reason.POOL_FULL, unplaced=held - max(seen.placeable, seen.ready))
    if call.replicas > settings.maximum:
        return Bounded(held, Reason.AT_MAXIMUM)
    return Bounded(held, Reason.AT_MINIMUM if held == settings.minimum else Reason.STEADY)


def _down(settings: TierSettings, seen: Observation, call: Call, held: int, floor: int) -> Bounded:
    if len(seen.pods) < seen.ready:
        return Bounded(held, Reason.PARTIAL_METRICS)
    if not call.window_full:
        return Bounded(held, Reason.WINDOW_NOT_FULL)
    lasting = floor if call.idle else max(floor, call.lasting)
    if lasting >= held:
        return Bounded(held, Reason.FORECAST_HOLDS)
    if not call.rested:
        return Bounded(held, Reason.STEP_LIMITED)
    most = max(settings.most_down, held // 10)
    return Bounded(max(lasting, held - most), Reason.IDLE if call.idle else Reason.DEMAND_FELL)
