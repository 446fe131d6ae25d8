"""Keeps what the autoscaler has learned of a tier in a ConfigMap that goes with the tier; says when that is written."""

import logging
from dataclasses import dataclass
from typing import Final, Protocol

from tierwright.api.tier import InferenceTier
from tierwright.capacity.state import TierState, dump, load
from tierwright.control.apply_plan import controller_of
from tierwright.control.autoscale_tier import Memory
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name
from tierwright.kube.errors import ApiError, KubeError, Verdict
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


def is_due(memory: Memory, now: float, between: float = BETWEEN_WRITES) -> bool:
    """Whether the state is to be written: every ``between`` seconds while there are requests, seldom without them.

    A wake-up that was acted on is written as soon as that allows, or the tier would wake once more after a restart.
    """
    if memory.written_at is None:
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
        """What was learned of this very tier; None when there is nothing that can be read, KubeError to ask again."""

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> bool:
        """Write the state; whether it was."""


class StateStore:
    """Reads and writes the ConfigMaps."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def load(self, tier: InferenceTier) -> Learned | None:
        """What was learned of this very tier; None when there is nothing that can be read.

        Raises KubeError when asking again may help.
        """
        try:
            live = await self._client.get(_ref(tier))
        except ApiError as error:
            if error.verdict is Verdict.RETRY:
                raise
            _log.warning("what was learned of %s cannot be read, so it begins anew: %s", _ref(tier), error)
            return None
        if live is None or not _is_of(live, tier):
            return None
        data = live.get("data") or {}
        state = load(str(data.get("state", "")))
        if state is None:
            _log.warning("what lies in %s cannot be read, so learning begins anew", _ref(tier))
            return None
        return Learned(state, str(data.get("wake", ""))[:_MOST_HEARD], _number(data.get("written")))

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> bool:
        """Write the state; whether it was. What stands in the way is logged: the next time it may not."""
        ref = _ref(tier)
        try:
            text = dump(memory.state)
            live = await self._client.get(ref)
            if live is not None and not _is_of(live, tier):
                _log.warning("%s is not this tier's, so what was learned is not kept there", ref)
                return False
            await self._client.apply(
                _manifest(tier, text, memory.heard, now, live), manager=AUTOSCALER_MANAGER
            )
        except (KubeError, ValueError) as error:
            _log.warning("what was learned could not be written to %s: %s", ref, error)
            return False
        return True


def _ref(tier: InferenceTier) -> ObjectRef:
    return ObjectRef(CONFIG_MAP, tier.metadata.namespace, child_name(tier.metadata.name, _SUFFIX))


def _is_of(live: Object, tier: InferenceTier) -> bool:
    """Whether the object belongs to the tier, and not to an earlier one of the same name."""
    return (controller_of(live) or {}).get("uid") == tier.metadata.uid


def _manifest(tier: InferenceTier, text: str, heard: str, now: float, live: Object | None) -> Object:
    metadata = child_metadata(tier, child_name(tier.metadata.name, _SUFFIX))
    if live is not None:
        metadata["uid"] = live["metadata"]["uid"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"state": text, "wake": heard, "written": f"{now:.0f}"},
    }


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return 0.0
