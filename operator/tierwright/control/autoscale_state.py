"""Keeps what the autoscaler has learned of a tier in a ConfigMap that goes with the tier; says when that is written."""

import logging
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tierwright.api.tier import InferenceTier
from tierwright.capacity.state import Needed, TierState, dump, load
from tierwright.control.apply_plan import controller_of
from tierwright.control.autoscale_tier import Memory
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name
from tierwright.kube.errors import KubeError
from tierwright.kube.resources import CONFIG_MAP, Object, ObjectRef
from tierwright.kube.verbs import KubeClient
from tierwright.observe.managers import AUTOSCALER_MANAGER

BETWEEN_WRITES: Final = 300.0
BETWEEN_IDLE_WRITES: Final = 6 * 3600.0
"""A tier that has nothing to do still learns that; losing some hours of it does no harm."""
_SUFFIX: Final = "autoscaler"
_MOST_HEARD: Final = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Learned:
    """What lay in the cluster; `written_at` in seconds since 1970."""

    state: TierState
    heard: str = ""
    written_at: float = 0.0
    version: str = ""
    """The object's resourceVersion."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of a write: whether the state was written, and the object's resourceVersion from now on."""

    written: bool
    version: str


def is_due(memory: Memory, now: float, between: float = BETWEEN_WRITES) -> bool:
    """Whether the state is to be written: every ``between`` seconds while there are requests, seldom without them.

    A wake-up that was acted on is written as soon as that allows, or the tier would wake once more after a restart.
    What could not be read is not overwritten.
    """
    if memory.written_at is None or memory.unread:
        return False
    state, waited = memory.state, now - memory.written_at
    if memory.heard != memory.heard_kept:
        return waited >= between
    if state.last_at <= memory.written_at:
        return False
    return waited >= (between if state.last_busy > memory.written_at else BETWEEN_IDLE_WRITES)


class States(Protocol):
    """Where states lie."""

    async def load(self, tier: InferenceTier) -> Learned | None:
        """What was learned of this very tier; None when there is nothing, KubeError when it cannot be read."""

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> Kept:
        """Write the state, unless somebody else has written one since it was last read or written here."""


class StateStore:
    """Reads and writes the ConfigMaps."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def load(self, tier: InferenceTier) -> Learned | None:
        """What was learned of this very tier; None when there is nothing, or only what no release like this one wrote.

        Raises KubeError when it cannot be asked for: it may be there.
        """
        live = await self._client.get(_ref(tier))
        if live is None or not _is_of(live, tier):
            return None
        data = live.get("data") or {}
        state = load(str(data.get("state", "")))
        if state is None:
            _log.warning("what lies in %s cannot be read, so learning begins anew", _ref(tier))
            return None
        heard = str(data.get("wake", ""))[:_MOST_HEARD]
        return Learned(state, heard, _number(data.get("written")), _version(live))

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> Kept:
        """Write the state, unless somebody else has written one since it was last read or written here.

        What stands in the way is logged: the next time it may not.
        """
        ref = _ref(tier)
        try:
            text = fitting(memory.state)
            live = await self._client.get(ref)
            if live is not None and not _is_of(live, tier):
                _log.warning("%s is not this tier's, so what was learned is not kept there", ref)
                return Kept(False, memory.version)
            if live is not None and memory.version not in ("", _version(live)):
                _log.warning(
                    "%s was written by somebody else meanwhile, so it is left as it is this time", ref
                )
                return Kept(False, _version(live))
            after = await self._client.apply(
                _manifest(tier, text, memory.heard, now, live), manager=AUTOSCALER_MANAGER
            )
        except (KubeError, ValueError) as error:
            _log.warning("what was learned could not be written to %s: %s", ref, error)
            return Kept(False, memory.version)
        return Kept(True, _version(after))


def fitting(state: TierState) -> str:
    """The state as JSON within its bound: of what the hold looks back on, neighbours are put together until it fits.

    Their most and the later of their times stay, so that a replica goes later by that and never sooner. Raises ValueError
    when something else outgrows the bound.
    """
    while True:
        try:
            return dump(state)
        except ValueError:
            if len(state.needed) < 2:
                raise
            state = replace(state, needed=_halved(state.needed))


def _halved(needed: tuple[Needed, ...]) -> tuple[Needed, ...]:
    pairs = (needed[place : place + 2] for place in range(0, len(needed), 2))
    return tuple(Needed(pair[-1].at, max(each.replicas for each in pair)) for pair in pairs)


def _ref(tier: InferenceTier) -> ObjectRef:
    return ObjectRef(CONFIG_MAP, tier.metadata.namespace, child_name(tier.metadata.name, _SUFFIX))


def _is_of(live: Object, tier: InferenceTier) -> bool:
    """Whether the object belongs to the tier, and not to an earlier one of the same name."""
    return (controller_of(live) or {}).get("uid") == tier.metadata.uid


def _manifest(tier: InferenceTier, text: str, heard: str, now: float, live: Object | None) -> Object:
    metadata = child_metadata(tier, child_name(tier.metadata.name, _SUFFIX))
    if live is not None:
        metadata |= {"uid": live["metadata"]["uid"], "resourceVersion": _version(live)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"state": text, "wake": heard, "written": f"{now:.0f}"},
    }


def _version(live: Object) -> str:
    return str(live["metadata"].get("resourceVersion") or "")


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return 0.0
