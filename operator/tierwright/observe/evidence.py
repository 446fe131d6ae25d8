"""Decides which pods and volume claims need more than their own status to be explained, and reads that.

Events are not watched: they are many, and a healthy tier needs none. They are read for the few objects that are stuck
in a way that their own status does not explain.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from tierwright.kube.errors import KubeError
from tierwright.kube.resources import EVENT
from tierwright.kube.verbs import KubeClient
from tierwright.observe.pods import EventView, PodView, event_view

STUCK_AFTER: Final = timedelta(seconds=5)
"""A pod this young may be slow without anything being wrong."""

_MOST_SUBJECTS: Final = 6
_CREATING: Final = frozenset({"ContainerCreating", "PodInitializing"})

Subject = tuple[str, str]
"""Kind and name of an object whose Events are wanted."""


def subjects(
    pods: Iterable[PodView], claims: Iterable[str], ephemeral_volumes: Iterable[str], now: datetime
) -> tuple[Subject, ...]:
    """Objects whose Events are wanted now: unplaced pods' volume claims, pods being set up, pods that ended.

    ``claims`` are names of claims that all pods mount, ``ephemeral_volumes`` names of volumes of which each pod has
    its own claim.
    """
    stuck = sorted(
        (pod for pod in pods if pod.active and not pod.ready and _is_old_enough(pod, now)),
        key=lambda pod: pod.name,
    )
    unplaced = [pod for pod in stuck if not pod.node]
    found: list[Subject] = []
    if unplaced:
        found += [("PersistentVolumeClaim", name) for name in claims]
        found += [
            ("PersistentVolumeClaim", f"{pod.name}-{volume}")
            for pod in unplaced[:2]
            for volume in ephemeral_volumes
        ]
    found += [("Pod", pod.name) for pod in stuck if pod.node and _needs_events(pod)]
    return tuple(found[:_MOST_SUBJECTS])


def is_starting(pods: Iterable[PodView], now: datetime) -> bool:
    """Whether some pod is too young to be looked into, and must be looked at again."""
    return any(pod.active and not pod.ready and not _is_old_enough(pod, now) for pod in pods)


async def list_events(client: KubeClient, namespace: str, wanted: Iterable[Subject]) -> tuple[EventView, ...]:
    """The Events of these objects; none where they may not be read, since they only add words."""
    found: list[EventView] = []
    for kind, name in wanted:
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        try:
            events = await client.list(EVENT, namespace, field_selector=selector)
        except KubeError:
            return tuple(found)
        found += sorted((event_view(event) for event in events), key=lambda event: event.seen, reverse=True)
    return tuple(found)


def template_volumes(workload: Mapping[str, Any] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The claims that a workload's pods share, and the names of the volumes of which each pod has its own claim."""
    template = ((workload or {}).get("spec") or {}).get("template") or {}
    volumes = (template.get("spec") or {}).get("volumes") or []
    shared = tuple(
        str(volume["persistentVolumeClaim"].get("claimName"))
        for volume in volumes
        if volume.get("persistentVolumeClaim")
    )
    return shared, tuple(str(volume.get("name")) for volume in volumes if volume.get("ephemeral"))


def _needs_events(pod: PodView) -> bool:
    if not pod.containers:
        return True
    return any(
        container.waiting_reason in _CREATING
        or "ImagePull" in container.waiting_reason
        # Whatever the exit code: an engine that is told to stop for a failed probe may end in good order.
        or (container.latest_exit is not None and not container.is_init)
        for container in pod.containers
    )


def _is_old_enough(pod: PodView, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(pod.created) >= STUCK_AFTER
    except ValueError:
        return True
