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
    r"(\d+) node\(s\) didn't match (?:Pod's node affinity/selector|Pod's node affinity|node selector)"
)
_TAINTED: Final = re.compile(r"(\d+) node\(s\) had (?:untolerated )?taint")
_NO_NODES: Final = "no nodes available to schedule pods"
_PREEMPTION: Final = re.compile(r"\s*(no new claims to deallocate,\s*)?preemption:.*$", re.DOTALL)


def creation_refused(snapshot: Snapshot) -> Finding | None:
    """The API server refuses the pods themselves: quota, an admission rule, or a broken template."""
    failure = snapshot.workload.condition("ReplicaFailure") if snapshot.workload else None
    if failure is None or failure.status != "True":
        return None
    return pods_refused("pods are refused", failure.message)


def pods_refused(subject: str, words: str) -> Finding:
    """Why the API server refuses pods, out of its own words."""
    if _QUOTA.search(words):
        reason = Reason.QUOTA_EXCEEDED
    else:
        reason = Reason.FORBIDDEN if "forbidden" in words else Reason.REJECTED
    return Finding(reason, f"{subject}: {clipped(words)}")


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
    """No node is both in the tier's node pool and free of taints that the pods do not tolerate."""
    for pod in _unplaced(snapshot):
        words = scheduler_words(pod)
        if matches_no_node(words):
            return Finding(
                Reason.NODE_POOL_EMPTY,
                f"no node that the tier tolerates matches its node pool: pod {pod.name}: {words}",
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
    """Whether the scheduler says that every node lies outside the pod's node selector, or is tainted.

    A node outside the pool that is tainted as well (a control plane's) is counted among the tainted ones only, so
    these do not tell that the pool has a node. Where no node is outside the pool, taints alone are the trouble.
    """
    if _NO_NODES in words:
        return True
    nodes = _NODES.search(words)
    if nodes is None:
        return False
    off_pool = sum(int(count) for count in _OFF_POOL.findall(words))
    tainted = sum(int(count) for count in _TAINTED.findall(words))
    return int(nodes["all"]) == off_pool + tainted and (off_pool > 0 or tainted == 0)


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
