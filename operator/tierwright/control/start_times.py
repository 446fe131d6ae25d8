"""Decides what of a pod's way from creation to ready was its start: all but the wait for room on a node that was there.

The horizon of a decision is the time that one more replica takes if it is asked for now. A node that a cluster autoscaler
brings for it is part of that, and so are pulling and loading. That other pods held the devices is not: how long they
will, no earlier wait tells, and a horizon of hours would neither let a tier shrink nor foretell anything.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tierwright.control.observation import LivePod
from tierwright.control.pool_room import WAITS_FOR_A_MINUTE

LONGEST_PROVISIONING: Final = 900.0
"""Seconds of a wait for a node that count at most: a node that takes longer comes when somebody acts, not by itself."""
_FORGOTTEN: Final = 86_400.0
"""Seconds after which a node without pods of ours is forgotten."""


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node that pods of tiers ran on; times in seconds since 1970."""

    since: float
    """When the first of them that we know of got its place there."""
    until: float
    """When one was there last."""


@dataclass(frozen=True, slots=True)
class MeasuredStarts:
    """Seconds of the starts that ended now, and the pods whose start is known by now."""

    seconds: tuple[float, ...]
    known: frozenset[str]
    """Uids of live pods that were ready once."""


def seen_nodes(before: Mapping[str, SeenNode], pods: Iterable[LivePod], now: float) -> dict[str, SeenNode]:
    """What is known of nodes, by name, with the pods that are there `now`."""
    nodes = {name: each for name, each in before.items() if each.until > now - _FORGOTTEN}
    for pod in pods:
        if not pod.node:
            continue
        placed = pod.created if pod.scheduled is None else pod.scheduled
        last = nodes.get(pod.node)
        nodes[pod.node] = SeenNode(placed if last is None else min(last.since, placed), now)
    return nodes


def measured_starts(
    pods: Iterable[LivePod], known: Collection[str] | None, nodes: Mapping[str, SeenNode]
) -> MeasuredStarts:
    """Seconds of the start of each pod that is ready for the first time; None for `known` begins to watch.

    A pod whose containers were restarted tells how long a failure took, not a start. What was ready before anybody
    watched is not measured: its readiness may have come and gone since.
    """
    ready = [pod for pod in pods if pod.ready_since is not None]
    seconds = tuple(
        pod.ready_since - begun(pod, nodes)
        for pod in ready
        if known is not None and pod.uid not in known and pod.restarts == 0 and pod.ready_since is not None
    )
    kept = {pod.uid for pod in pods if known is not None and pod.uid in known}
    return MeasuredStarts(seconds, frozenset(kept | {pod.uid for pod in ready}))


def begun(pod: LivePod, nodes: Mapping[str, SeenNode]) -> float:
    """From when on the pod's way counts as its start, in seconds since 1970."""
    if pod.scheduled is None or pod.scheduled - pod.created < WAITS_FOR_A_MINUTE:
        return pod.created
    node = nodes.get(pod.node)
    if node is not None and node.since < pod.created:
        return pod.scheduled
    return max(pod.created, pod.scheduled - LONGEST_PROVISIONING)


def start_seconds(total: float | None, scheduling: float | None) -> float | None:
    """The same of a start of which only the phases are known, as a tier's status remembers them; None: of none."""
    if total is None:
        return None
    waited = scheduling or 0.0
    return total - waited if waited >= WAITS_FOR_A_MINUTE else total
