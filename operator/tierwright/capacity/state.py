"""What the autoscaler has learned of one tier, and how it lies in an object of the cluster: JSON of bounded size.

Whatever cannot be read back is lost and learned again; a lost state never shrinks a tier.
"""

import json
import math
import types
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from tierwright.capacity.dispersion import Dispersion
from tierwright.capacity.forecast import Forecast
from tierwright.capacity.miss_curve import MissEvidence
from tierwright.capacity.promise import Misses
from tierwright.capacity.samples import Row
from tierwright.capacity.starts import Starts
from tierwright.capacity.step_time import StepPoints
from tierwright.capacity.work import Mix, StepTime

VERSION: Final = 5
MOST_BYTES: Final = 64 * 1024
"""Bound on the JSON of one tier; a ConfigMap holds 1 MiB."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Needed:
    """Most replicas that were called for within one slot."""

    at: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The slot that is being filled."""

    seconds: float = 0.0
    replica_seconds: float = 0.0
    arrivals: float = 0.0
    backlog_before: float = 0.0
    requests: float = 0.0
    misses: float = 0.0


@dataclass(frozen=True, slots=True)
class TierState:
    """Everything that is carried from tick to tick."""

    last_at: float = -math.inf
    """The last tick that had data."""
    since: float = math.inf
    """Since when data came without a long gap."""
    last_down: float = -math.inf
    """When fewer replicas were last asked for than before, whoever asked."""
    wanted: int = 0
    """What was asked for at the last tick."""
    last_busy: float = -math.inf
    """When a request last came, ran or waited."""
    rows: tuple[Row, ...] = ()
    """Newest rows, of about one slot."""
    slot: Slot = field(default_factory=Slot)
    load_before: float = 0.0
    """Load of the slot before."""
    needed: tuple[Needed, ...] = ()
    """What the hold looks back on, oldest first."""
    misses: Misses = field(default_factory=Misses)
    mix: Mix = field(default_factory=Mix)
    points: StepPoints = field(default_factory=StepPoints)
    step_time: StepTime | None = None
    """Mean of the fits to the points; None: nothing was fitted yet."""
    fits: int = 0
    """Fits that the mean is of, up to a day's."""
    evidence: MissEvidence = field(default_factory=MissEvidence)
    starts: Starts = field(default_factory=Starts)
    dispersion: Dispersion = field(default_factory=Dispersion)
    forecast: Forecast = field(default_factory=Forecast)


def dump(state: TierState) -> str:
    """The state as JSON; numbers keep five digits, times all of theirs."""
    text = json.dumps({"version": VERSION, "tier": _packed(state)}, separators=(",", ":"))
    if len(text) > MOST_BYTES:
        raise ValueError(f"the state of a tier has {len(text):,} bytes; at most {MOST_BYTES:,} are kept")
    return text


def load(text: str) -> TierState | None:
    """The state that `dump` wrote; None when it is of another version or damaged.

    The window begins anew: after a restart nothing shrinks before a full window was seen.
    """
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            return None
        state = _unpacked(TierState, document["tier"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None
    return TierState(
        **{
            **{each.name: getattr(state, each.name) for each in fields(TierState)},
            "last_at": -math.inf,
            "since": math.inf,
            "wanted": 0,
            "rows": (),
            "slot": Slot(),
        }
    )


def _packed(value: Any) -> Any:
    """Lists in place of dataclasses and tuples; a field's place is its name."""
    if is_dataclass(value):
        return [_packed(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, tuple):
        return [_packed(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float):
        return round(value, 1) if abs(value) >= 1e6 else float(f"{value:.5g}")
    return value


def _unpacked(kind: type[_T], value: Any) -> _T:
    """A dataclass from its list. Raises ValueError, TypeError when the list does not fit."""
    if not isinstance(value, list):
        raise TypeError(f"{kind.__name__} is no list")
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _unpacked_as(hints[name], part) for name, part in zip(names, value, strict=True)})


def _unpacked_as(hint: Any, value: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return None if value is None else _unpacked_as(get_args(hint)[0], value)
    if isinstance(hint, types.GenericAlias) and get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise TypeError("a tuple is no list")
        return tuple(_unpacked_as(get_args(hint)[0], each) for each in value)
    if hint is int:
        if not isinstance(value, int):
            raise TypeError(f"{value!r} is no whole number")
        return value
    if hint is float:
        number = float(value)
        if math.isnan(number):
            raise ValueError("not a number")
        return number
    return _unpacked(hint, value)
