"""Makes pods, Deployments and tiers as the API server shows them, and computes their status, for tests of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import Condition, TierStatus
from tierwright.api.tier import InferenceTier
from tierwright.control.status.compute import compute_status
from tierwright.observe.pods import event_view, pod_view, workload_view
from tierwright.observe.snapshot import Facts, ScaleView, Snapshot, Stage

Object = dict[str, Any]
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-11-30T11:00:00Z"
SCHEDULER = (
    "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector."
    " no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
)
OFF_POOL = (
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are"
    " available: 3 Preemption is not helpful for scheduling."
)
PULL = 'failed to resolve reference "registry.example/vllm:9": not found'


def tier_object(name: str = "llama-fast", **spec: Any) -> Object:
    """A valid tier as it is stored; keywords are fields of the spec in wire form and replace the defaults."""
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name, "namespace": "serving", "uid": "u-1", "generation": 3},
        "spec": {
            "model": {"name": "meta/llama", "source": "hf://meta-llama/Llama@main"},
            "speed": "fast",
            "replicas": 2,
            "engine": {"type": "vllm"},
            "hardware": {
                "accelerator": "nvidia",
                "count": 1,
                "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "h100"}},
            },
            **spec,
        },
    }


def tier(**spec: Any) -> InferenceTier:
    """``tier_object`` as the operator reads it."""
    return InferenceTier.model_validate(tier_object(**spec))


def condition(type_: str, status: str, reason: str = "", message: str = "", since: str = CREATED) -> Object:
    """A condition of a pod or Deployment."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def container(name: str = "engine", *, ready: bool = False, restarts: int = 0, **states: Object) -> Object:
    """A container status; keywords ``state`` and ``last_state``."""
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": states.get("state", {}),
        "lastState": states.get("last_state", {}),
    }


def waiting(reason: str, message: str = "") -> Object:
    """The state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str = "Error", message: str = "") -> Object:
    """The state of a container that ended."""
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def running(since: str = "2026-11-30T11:01:00Z") -> Object:
    """The state of a container that runs."""
    return {"running": {"startedAt": since}}


def pod(
    name: str = "llama-fast-1",
    *,
    node: str = "node-1",
    phase: str = "Running",
    ready: bool = False,
    containers: list[Object] | None = None,
    init: list[Object] | None = None,
    conditions: list[Object] | None = None,
    status: Mapping[str, Any] | None = None,
    deleting: bool = False,
    created: str = CREATED,
) -> Object:
    """A pod of the tier."""
    given = conditions or []
    known = {each["type"] for each in given}
    usual = [
        condition("PodScheduled", "True" if node else "False"),
        condition("Initialized", "True"),
        condition("Ready", "True" if ready else "False"),
        condition("ContainersReady", "True" if ready else "False"),
    ]
    metadata: Object = {
        "name": name,
        "namespace": "serving",
        "uid": f"uid-{name}",
        "creationTimestamp": created,
    }
    if deleting:
        metadata["deletionTimestamp"] = CREATED
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [*given, *(each for each in usual if each["type"] not in known)],
            "containerStatuses": containers
            if containers is not None
            else [container(ready=ready, state=running())],
            "initContainerStatuses": init or [],
            **(status or {}),
        },
    }


def unschedulable(words: str, name: str = "llama-fast-1") -> Object:
    """A pod for which the scheduler finds no node."""
    return pod(
        name,
        node="",
        phase="Pending",
        containers=[],
        conditions=[condition("PodScheduled", "False", "Unschedulable", words)],
    )


def ready_pod(name: str = "llama-fast-1") -> Object:
    """A pod that serves."""
    return pod(name, ready=True)


def deployment(
    replicas: int = 2, *, updated: int | None = None, conditions: list[Object] | None = None
) -> Object:
    """The workload; rolled out unless ``updated`` says otherwise."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama-fast", "namespace": "serving", "uid": "d-1", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas if updated is None else updated,
            "conditions": conditions or [],
        },
    }


def event(kind: str, name: str, reason: str, message: str) -> Object:
    """An Event on an object."""
    return {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message}


def snapshot(
    *pods: Object,
    of: InferenceTier | None = None,
    workload: Object | None = None,
    wanted: int | None = None,
    events: list[Object] | None = None,
    **fields: Any,
) -> Snapshot:
    """A snapshot of an active tier; ``wanted`` defaults to the tier's replicas."""
    spec = of or tier()
    replicas = spec.spec.replicas if wanted is None else wanted
    defaults: dict[str, Any] = {
        "generation": 3,
        "stage": Stage.ACTIVE,
        "selector": "tierwright.dev/tier=llama-fast",
        "tier": spec,
        "facts": Facts("llama-fast.serving.svc:8000", "vllm/vllm-openai:v0.32.0", "0.32.0"),
        "scale": ScaleView(replicas, Reason.MANUAL, "spec.replicas decides"),
    }
    return Snapshot(
        **{**defaults, **fields},
        workload=workload_view(workload or deployment(replicas)),
        pods=tuple(pod_view(each) for each in pods),
        events=tuple(event_view(each) for each in events or []),
    )


def status_of(view: Snapshot, previous: TierStatus | None = None) -> TierStatus:
    """The status of this snapshot."""
    return compute_status(view, previous or TierStatus(), NOW)


def get(status: TierStatus, kind: ConditionType) -> Condition:
    """One condition of a status."""
    return next(each for each in status.conditions if each.type == kind)


def ready(view: Snapshot) -> Condition:
    """What Ready says of this snapshot."""
    return get(status_of(view), ConditionType.READY)
