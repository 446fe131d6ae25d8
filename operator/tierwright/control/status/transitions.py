"""Decides which Events a change of status is worth: what a person would want to read in `kubectl describe`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import Condition, TierStatus
from tierwright.control.status.additions import new_additions
from tierwright.observe.snapshot import ChildAdditions

ORDINARY: Final = frozenset(
    {
        Reason.SERVING,
        Reason.SCALED_TO_ZERO,
        Reason.SUSPENDED,
        Reason.STARTING,
        Reason.PAUSED,
        Reason.TOO_FEW_READY,
        Reason.SETTLED,
        Reason.APPLYING,
        Reason.ROLLING_OUT,
        Reason.PROGRESSING,
        Reason.DELETING,
        Reason.ALL_PLACED,
        Reason.NO_PODS,
        Reason.WAITING,
        Reason.NO_METRICS,
        Reason.START_VALUE,
        Reason.MANUAL,
        Reason.RECOMMENDING,
        Reason.STEADY,
        Reason.DEMAND_GREW,
        Reason.DEMAND_FELL,
        Reason.FORECAST_HOLDS,
        Reason.WINDOW_NOT_FULL,
        Reason.AT_MINIMUM,
        Reason.STEP_LIMITED,
        Reason.IDLE,
        Reason.WOKEN,
        Reason.NO_GATEWAY,
        Reason.COMPILED,
        Reason.COMPILING,
        Reason.COMPILES_AT_START,
    }
)
"""Reasons that belong to a tier's normal life; all others are causes that a person must act on."""

_WATCHED: Final = (
    ConditionType.READY,
    ConditionType.STALLED,
    ConditionType.RECONCILING,
    ConditionType.SCALING_ACTIVE,
    ConditionType.COMPILE_CACHE_READY,
)


_RESCALES: Final = frozenset(
    {Reason.DEMAND_GREW, Reason.DEMAND_FELL, Reason.IDLE, Reason.WOKEN, Reason.STEP_LIMITED}
)
"""Reasons of ScalingActive that come with another number of replicas, each worth an Event."""


@dataclass(frozen=True)
class Transition:
    """One Event to write."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(
    before: TierStatus, after: TierStatus, additions: Iterable[ChildAdditions] = ()
) -> tuple[Transition, ...]:
    """Events for what changed: a cause or a field of others that was not there before, Ready or Reconciling turning over.

    ``additions`` are those of which ``after`` warns.
    """
    known = {condition.reason for condition in before.conditions if condition.type in _WATCHED}
    found: dict[str, Transition] = {}
    for kind in _WATCHED:
        old, new = _condition(before, kind), _condition(after, kind)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if new.reason not in ORDINARY:
            if new.reason not in known:
                found.setdefault(new.reason, Transition("Warning", new.reason, new.message))
        elif _worth_telling(kind, old, new):
            lost = kind is ConditionType.READY and new.status == "False" and old is not None
            warn = lost and old is not None and old.status == "True" and new.reason == Reason.TOO_FEW_READY
            found.setdefault(new.reason, Transition("Warning" if warn else "Normal", new.reason, new.message))
    if (rescale := _rescale(before, after)) is not None:
        found.setdefault(rescale.reason, rescale)
    added = new_additions(before.warnings or (), after.warnings or (), additions)
    return (*found.values(), *(Transition("Warning", Reason.FIELDS_ADDED, words) for words in added))


def _rescale(before: TierStatus, after: TierStatus) -> Transition | None:
    """Another number of replicas that follows from the load."""
    active = _condition(after, ConditionType.SCALING_ACTIVE)
    if active is None or active.status != "True" or active.reason not in _RESCALES:
        return None
    if before.desired_replicas in (None, after.desired_replicas):
        return None
    return Transition("Normal", active.reason, active.message)


def _worth_telling(kind: ConditionType, old: Condition | None, new: Condition) -> bool:
    turned = old is None or old.status != new.status
    if kind is ConditionType.READY:
        return turned or new.reason in (Reason.SUSPENDED, Reason.SCALED_TO_ZERO)
    if kind is ConditionType.RECONCILING:
        return (turned and new.status == "True" and new.reason == Reason.ROLLING_OUT) or new.reason in (
            Reason.PAUSED,
            Reason.DELETING,
        )
    return False


def _condition(status: TierStatus, kind: ConditionType) -> Condition | None:
    return next((each for each in status.conditions if each.type == kind), None)
