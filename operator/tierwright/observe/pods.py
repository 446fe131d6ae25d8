"""Reads out of live objects what the status is computed from: pods, containers, volume claims, Events, the workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierwright.kube.resources import Object


@dataclass(frozen=True)
class Exit:
    """How a container ended; ``message`` is what it wrote to its termination log, or the tail of its output.

    ``started`` and ``finished`` are when the run that ended so began and ended (RFC 3339), empty where not known.
    """

    code: int
    reason: str
    message: str
    started: str = ""
    finished: str = ""


@dataclass(frozen=True)
class ContainerView:
    """One container of a pod. ``exit`` is its present end, ``last_exit`` the one before the present start."""

    name: str
    is_init: bool
    ready: bool
    restarts: int
    waiting_reason: str = ""
    waiting_message: str = ""
    running_since: str = ""
    exit: Exit | None = None
    last_exit: Exit | None = None

    @property
    def latest_exit(self) -> Exit | None:
        """The most recent end."""
        return self.exit or self.last_exit


@dataclass(frozen=True)
class ConditionView:
    """A condition of a pod or a workload, as Kubernetes reports it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True)
class PodView:
    """One pod: where it is and how far it came."""

    name: str
    created: str
    node: str
    phase: str
    reason: str
    message: str
    deleting: bool
    conditions: tuple[ConditionView, ...]
    containers: tuple[ContainerView, ...]

    def condition(self, condition_type: str) -> ConditionView | None:
        """The condition of this type."""
        return next((each for each in self.conditions if each.type == condition_type), None)

    def holds(self, condition_type: str) -> bool:
        """Whether the condition of this type is True."""
        condition = self.condition(condition_type)
        return condition is not None and condition.status == "True"

    @property
    def active(self) -> bool:
        """Whether the pod counts as a replica: not being deleted and not ended."""
        return not self.deleting and self.phase not in ("Failed", "Succeeded")

    @property
    def ready(self) -> bool:
        """Whether the pod is a replica that serves."""
        return self.active and self.holds("Ready")


@dataclass(frozen=True)
class VolumeClaimView:
    """One volume claim of the tier."""

    name: str
    phase: str


@dataclass(frozen=True)
class EventView:
    """One Kubernetes Event on an object of the tier; ``seen`` is when it last came (RFC 3339), empty if not known."""

    kind: str
    name: str
    reason: str
    message: str
    seen: str = ""


@dataclass(frozen=True)
class WorkloadView:
    """The Deployment: what it was asked for and how far its controller came."""

    kind: str
    name: str
    generation: int
    observed_generation: int
    replicas: int
    updated: int
    total: int
    conditions: tuple[ConditionView, ...]

    def condition(self, condition_type: str) -> ConditionView | None:
        """The condition of this type."""
        return next((each for each in self.conditions if each.type == condition_type), None)


def pod_view(pod: Object) -> PodView:
    """The parts of a pod that matter here."""
    metadata, spec, status = _part(pod, "metadata"), _part(pod, "spec"), _part(pod, "status")
    return PodView(
        name=str(metadata.get("name") or ""),
        created=str(metadata.get("creationTimestamp") or ""),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        conditions=_conditions(status),
        containers=tuple(
            _container(entry, is_init=field == "initContainerStatuses")
            for field in ("initContainerStatuses", "containerStatuses")
            for entry in status.get(field) or []
        ),
    )


def volume_claim_view(claim: Object) -> VolumeClaimView:
    """The parts of a volume claim that matter here."""
    return VolumeClaimView(
        name=str(_part(claim, "metadata").get("name") or ""),
        phase=str(_part(claim, "status").get("phase") or "Pending"),
    )


def event_view(event: Object) -> EventView:
    """The parts of an Event that matter here."""
    involved = _part(event, "involvedObject")
    return EventView(
        kind=str(involved.get("kind") or ""),
        name=str(involved.get("name") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        seen=_last_seen(event),
    )


def _last_seen(event: Object) -> str:
    return str(
        _part(event, "series").get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or _part(event, "metadata").get("creationTimestamp")
        or ""
    )


def workload_view(workload: Object) -> WorkloadView:
    """The parts of a Deployment that matter here."""
    metadata, spec, status = _part(workload, "metadata"), _part(workload, "spec"), _part(workload, "status")
    return WorkloadView(
        kind=str(workload.get("kind") or ""),
        name=str(metadata.get("name") or ""),
        generation=int(metadata.get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        replicas=int(spec.get("replicas") or 0),
        updated=int(status.get("updatedReplicas") or 0),
        total=int(status.get("replicas") or 0),
        conditions=_conditions(status),
    )


def _part(obj: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return obj.get(key) or {}


def _conditions(status: Mapping[str, Any]) -> tuple[ConditionView, ...]:
    return tuple(
        ConditionView(
            type=str(entry.get("type") or ""),
            status=str(entry.get("status") or ""),
            reason=str(entry.get("reason") or ""),
            message=str(entry.get("message") or ""),
            since=str(entry.get("lastTransitionTime") or ""),
        )
        for entry in status.get("conditions") or []
    )


def _container(entry: Mapping[str, Any], *, is_init: bool) -> ContainerView:
    state, last = _part(entry, "state"), _part(entry, "lastState")
    waiting = _part(state, "waiting")
    return ContainerView(
        name=str(entry.get("name") or ""),
        is_init=is_init,
        ready=bool(entry.get("ready")),
        restarts=int(entry.get("restartCount") or 0),
        waiting_reason=str(waiting.get("reason") or ""),
        waiting_message=str(waiting.get("message") or ""),
        running_since=str(_part(state, "running").get("startedAt") or ""),
        exit=_exit(state),
        last_exit=_exit(last),
    )


def _exit(state: Mapping[str, Any]) -> Exit | None:
    ended = state.get("terminated")
    if not ended:
        return None
    return Exit(
        code=int(ended.get("exitCode") or 0),
        reason=str(ended.get("reason") or ""),
        message=str(ended.get("message") or ""),
        started=str(ended.get("startedAt") or ""),
        finished=str(ended.get("finishedAt") or ""),
    )
