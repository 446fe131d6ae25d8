"""Decides for how many replicas of a tier there is room: by pods that wait for a node, and by nodes that may be read.

A pod that waits says nothing for its first minute: the scheduler may be slow, or a node on its way. After that no
further replica is asked for beside it, but it stays asked for, since a cluster autoscaler adds nodes for pods that wait.
Nothing here ever keeps a tier from getting smaller.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tierwright.observe.pods import ContainerView, PodView

WAITS_FOR_A_MINUTE: Final = 60.0
"""Seconds after which a pod that the scheduler cannot place says that there is no room."""
_FAILED: Final = frozenset(
    {
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Why a container waits that has failed to start, and will fail again unless somebody acts."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Where a tier's replicas are."""

    placed: int
    """Replicas that have a node."""
    without_room: int
    """Replicas that the scheduler could not place for a minute."""


def counted(pods: Iterable[PodView], now: datetime) -> Replicas:
    """The tier's pods at `now`. Pods that are on their way out are no replicas."""
    active = [pod for pod in pods if pod.active]
    return Replicas(
        placed=sum(bool(pod.node) for pod in active),
        without_room=sum(is_without_room(pod, now) for pod in active),
    )


def placeable(replicas: Replicas, on_nodes: int | None = None) -> int | None:
    """Replicas for which there is room, those that have a node included; None where nothing says so.

    `on_nodes` is what `node_room` makes of the nodes, None where they may not be read. Both limits hold.
    """
    limits = [replicas.placed] if replicas.without_room else []
    if on_nodes is not None:
        limits.append(max(on_nodes, replicas.placed))
    return min(limits, default=None)


def is_without_room(pod: PodView, now: datetime) -> bool:
    """Whether the scheduler could not place the pod for a minute."""
    condition = pod.condition("PodScheduled")
    if not pod.active or pod.node or condition is None or condition.status != "False":
        return False
    # A pod with a scheduling gate waits for somebody who said so: that is no want of room.
    return condition.reason == "Unschedulable" and age(condition.since, now) >= WAITS_FOR_A_MINUTE


def lacks(pod: PodView, resource: str, now: datetime) -> bool:
    """Whether the pod waits because too little of this very resource is free, by the scheduler's words."""
    return is_without_room(pod, now) and f"Insufficient {resource}" in _words(pod)


def has_failed_to_start(pod: PodView) -> bool:
    """Whether a container of a pod that is not ready has failed and is held back before it is tried again."""
    return not pod.ready and any(_is_held_back(container) for container in pod.containers)


def age(since: str, now: datetime) -> float:
    """Seconds since a time of the API (RFC 3339); 0 for one that cannot be read, which is as good as just now."""
    try:
        then = datetime.fromisoformat(since)
    except ValueError:
        return 0.0
    return (now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()


def _is_held_back(container: ContainerView) -> bool:
    return container.waiting_reason in _FAILED


def _words(pod: PodView) -> str:
    condition = pod.condition("PodScheduled")
    return condition.message if condition is not None else ""
