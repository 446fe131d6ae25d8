"""What one tick sees of a tier: its pods as the cluster tells them and their samples, as the capacity policy takes them."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tierwright.capacity.samples import Judged, Observation, PodSample
from tierwright.control.pool_room import has_failed_to_start, is_without_room
from tierwright.kube.resources import Object
from tierwright.observe.pods import PodView, pod_view


@dataclass(frozen=True, slots=True)
class LivePod:
    """One pod that counts as a replica; times in seconds since 1970."""

    uid: str
    name: str
    address: str
    """IP address; empty when it has none yet."""
    created: float
    scheduled: float | None
    """When it got its place on a node; None: it has none, or does not tell."""
    ready_since: float | None
    """When it became ready; None: it is not."""
    waiting_since: float
    """Since when it is not ready; for one that is ready of no meaning."""
    restarts: int
    view: PodView

    @property
    def node(self) -> str:
        """The name of its node; empty where it has none."""
        return self.view.node

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return self.ready_since is not None


def live_pods(pods: Iterable[Object], now: float) -> tuple[LivePod, ...]:
    """The pods that count as replicas, by name; `now` stands for a time that a pod does not tell."""
    found = ((pod, pod_view(pod)) for pod in pods)
    moment = datetime.fromtimestamp(now, UTC)
    ordered = sorted(
        ((pod, view) for pod, view in found if view.active), key=lambda pair: (pair[1].name, pair[1].created)
    )
    return tuple(_live(pod, view, moment) for pod, view in ordered)


def _live(pod: Mapping[str, Any], view: PodView, now: datetime) -> LivePod:
    created = _seconds(view.created, now.timestamp())
    condition = view.condition("Ready")
    since = created if condition is None else _seconds(condition.since, created)
    placed = view.condition("PodScheduled")
    return LivePod(
        uid=str(pod["metadata"].get("uid") or view.name),
        name=view.name,
        address=str((pod.get("status") or {}).get("podIP") or ""),
        created=created,
        scheduled=_seconds(placed.since, created) if placed is not None and placed.status == "True" else None,
        ready_since=since if view.ready else None,
        # A pod that was ready and is not has begun to wait when it lost that; the condition of a new one is about as
        # old as its place on a node, so the wait for a node is not held against its start.
        waiting_since=max(created, since),
        restarts=sum(each.restarts for each in view.containers if not each.is_init),
        view=view,
    )


def observation_of(
    pods: Collection[LivePod],
    samples: Mapping[str, PodSample],
    *,
    wanted: int,
    started: tuple[float, ...],
    now: float,
    placeable: int | None = None,
    queued: float = 0.0,
    judged: Judged | None = None,
) -> Observation:
    """The observation of one tick; `samples` by uid, `wanted` as the workload is asked for, the rest as in Observation.

    `judged` and `queued` are for what a gateway measures in front of the engines; there is none yet, and only a wake-up queues.
    A pod without room does not start, and one whose start failed is counted on no longer.
    """
    moment = datetime.fromtimestamp(now, UTC)
    return Observation(
        pods=tuple(samples[pod.uid] for pod in pods if pod.ready and pod.uid in samples),
        ready=sum(pod.ready for pod in pods),
        wanted=wanted,
        starting=tuple(
            math.inf if has_failed_to_start(pod.view) else max(0.0, now - pod.waiting_since)
            for pod in pods
            if not pod.ready and not is_without_room(pod.view, moment)
        ),
        started=started,
        placeable=placeable,
        queued=queued,
        judged=judged,
    )


def _seconds(text: str, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return otherwise
