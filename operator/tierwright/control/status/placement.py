"""Finds why pods do not exist or have no node: quota, storage classes, volumes, node pools, the scheduler's words."""

import re
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.control.status.words import clipped
from tierwright.observe.pods import EventView, PodView
from tierwright.observe.snapshot import Finding, Snapshot

_QUOTA: Final = re.compile(r"exceeded quota|failed quota")
_NO_CLASS: Final = re.compile(
    r"storageclass\S* \"?[^\"\s]+\"? not found|no storage class is set", re.IGNORECASE
)
_NODES: Final = re.compile(r"(?P<fit>\d+)/(?P<all>\d+) nodes are available")
_OFF_POOL: Final = re.compile(
    r"(?P<count>\d+) node\(s\) didn't match (?:Pod's node affinity/selector|Pod's node affinity|node selector)"
)
_NO_NODES: Final = "no nodes available to schedule pods"
_PREEMPTION: Final = re.compile(r"\s*(no new claims to deallocate,\s*)?preemption:.*$", re.DOTALL)


def creation_refused(snapshot: Snapshot) -> Finding | None:
    """The API server refuses the pods themselves: quota, an admission rule, or a broken template."""
    failure = snapshot.workload.condition("ReplicaFailure") if snapshot.workload else None
    if failure is None or failure.status != "True":
        return None
    if _QUOTA.search(failure.message):
        return Finding(Reason.QUOTA_EXCEEDED, f"pods are refused: {clipped(failure.message)}")
    reason = Reason.FORBIDDEN if "forbidden" in failure.message else Reason.REJECTED
    return Finding(reason, f"pods are refused: {clipped(failure.message)}")


def storage_class_missing(snapshot: Snapshot) -> Finding | None:
    """A volume asks for a storage class that does not exist, or for the default class where there is none."""
    for event in _claim_events(snapshot):
        if _NO_CLASS.search(event.message):
            return Finding(Reason.STORAGE_CLASS_MISSING, f"volume {event.name}: {clipped(event.message)}")
    for pod in _unplaced(snapshot):
        words = scheduler_words(pod)
        if _NO_CLASS.search(words):
            return Finding(Reason.STORAGE_CLASS_MISSING, f"pod {pod.name}: {words}")
    return None


def volume_pending(snapshot: Snapshot) -> Finding | None:
    """A volume cannot be provisioned or bound, its claim does not exist, or its data is lost."""
    for claim in snapshot.claims:
        if claim.phase == "Lost":
            return Finding(Reason.VOLUME_PENDING, f"volume {claim.name}: the volume behind the claim is lost")
    for event in _claim_events(snapshot):
        return Finding(Reason.VOLUME_PENDING, f"volume {event.name}: {clipped(event.message)}")
    for pod in _unplaced(snapshot):
        words = scheduler_words(pod)
        if "persistentvolumeclaim" in words.lower():
            return Finding(Reason.VOLUME_PENDING, f"pod {pod.name}: {words}")
    return None


def node_pool_empty(snapshot: Snapshot) -> Finding | None:
    """No node matches the tier's node pool at all: known from the nodes, else from the scheduler's words."""
    for pod in _unplaced(snapshot):
        words = scheduler_words(pod)
        if words and (
            matches_no_node(words) if snapshot.pool_has_nodes is None else not snapshot.pool_has_nodes
        ):
            return Finding(
                Reason.NODE_POOL_EMPTY, f"no node matches the node pool of this tier: pod {pod.name}: {words}"
            )
    return None


def unschedulable(snapshot: Snapshot) -> Finding | None:
    """The scheduler finds no node; its own words say why."""
    pods = [pod for pod in _unplaced(snapshot) if scheduler_words(pod)]
    if not pods:
        return None
    more = f" ({len(pods)} pods wait)" if len(pods) > 1 else ""
    return Finding(Reason.UNSCHEDULABLE, f"pod {pods[0].name}{more}: {scheduler_words(pods[0])}")


def scheduler_words(pod: PodView) -> str:
    """What the scheduler says about a pod that it cannot place; empty when it has not looked or has placed it.

    The tail on preemption is left out: it repeats the count of nodes and names nothing to do.
    """
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return ""
    return clipped(_PREEMPTION.sub("", condition.message)) or condition.reason


def matches_no_node(words: str) -> bool:
    """Whether the scheduler says that every node there is lies outside the pod's node selector."""
    if _NO_NODES in words:
        return True
    nodes, off_pool = _NODES.search(words), _OFF_POOL.search(words)
    return bool(nodes and off_pool and nodes["all"] == off_pool["count"]) or bool(
        nodes and nodes["all"] == "0"
    )


def _unplaced(snapshot: Snapshot) -> tuple[PodView, ...]:
    return tuple(pod for pod in snapshot.active_pods if not pod.node)


def _claim_events(snapshot: Snapshot) -> tuple[EventView, ...]:
    """What went wrong with claims, as long as a pod waits for a node; later it is history."""
    if not _unplaced(snapshot):
        return ()
    return tuple(
        event
        for event in snapshot.events
        if event.kind == "PersistentVolumeClaim" and event.reason in ("ProvisioningFailed", "FailedBinding")
    )
