"""Decides Ready: whether enough live pods serve, and if not, why (rule 10)."""

from tierwright.api.conditions import Reason
from tierwright.api.tier import InferenceTier
from tierwright.control.status.causes import joined
from tierwright.control.status.draft import Draft
from tierwright.observe.pods import PodView
from tierwright.observe.snapshot import Finding, Snapshot, Stage

_DEFAULT_MAX_UNAVAILABLE = "1"


def ready(snapshot: Snapshot, found: tuple[Finding, ...]) -> Draft:
    """At least one ready pod and at least minReplicas - maxUnavailable; nothing wanted is ready too.

    A spec that is not carried out is not ready, whatever older pods serve.
    """
    if snapshot.stage is Stage.DELETING:
        return Draft("False", Reason.DELETING, "the tier is being deleted")
    if snapshot.refusal is not None:
        return Draft("False", snapshot.refusal.reason, snapshot.refusal.message)
    if snapshot.wanted == 0 and snapshot.workload is not None:
        if snapshot.scale is not None and snapshot.scale.suspended:
            return Draft("True", Reason.SUSPENDED, "suspended: no replicas, the other children are kept")
        return Draft("True", Reason.SCALED_TO_ZERO, "no replicas are asked for")
    count, needed = snapshot.ready_count, required_ready(snapshot.tier, snapshot.wanted)
    summary = f"{count} of {snapshot.wanted} replicas are ready"
    if count >= needed:
        return Draft("True", Reason.SERVING, "; ".join(filter(None, (summary, joined(found)))))
    if found:
        return Draft("False", found[0].reason, f"{summary}; {joined(found)}")
    if snapshot.stage is Stage.PAUSED and snapshot.workload is None:
        return Draft("False", Reason.PAUSED, "paused before any pods were made")
    if count:
        return Draft(
            "False", Reason.TOO_FEW_READY, f"{summary}, at least {needed} are needed{_progress(snapshot)}"
        )
    return Draft("False", Reason.STARTING, f"{summary}{_progress(snapshot)}")


def required_ready(tier: InferenceTier | None, wanted: int) -> int:
    """Ready pods that make the tier ready; never less than one.

    Without minReplicas a tier in mode Auto has 1 at least, in the other modes all that are wanted.
    """
    if tier is None:
        return max(1, wanted)
    scaling = tier.spec.scaling
    if scaling.mode == "Auto":
        fewest = scaling.fewest_in_auto
    else:
        fewest = wanted if scaling.min_replicas is None else scaling.min_replicas
    return max(1, min(fewest, wanted) - _max_unavailable(tier, wanted))


def _max_unavailable(tier: InferenceTier, wanted: int) -> int:
    text = tier.spec.rollout.max_unavailable or _DEFAULT_MAX_UNAVAILABLE
    return wanted * int(text[:-1]) // 100 if text.endswith("%") else int(text)


def _progress(snapshot: Snapshot) -> str:
    """How far the first pod that is not ready came."""
    waiting = sorted((pod for pod in snapshot.active_pods if not pod.ready), key=lambda pod: pod.name)
    if not waiting:
        awaited = ", ".join(snapshot.waiting_for)
        return f"; waits for the end of {awaited}" if awaited else "; pods are being created"
    return f"; pod {waiting[0].name} {_step(waiting[0])}"


def _step(pod: PodView) -> str:
    if not pod.node:
        return "waits for a node"
    if any(container.is_init and container.running_since for container in pod.containers):
        return "is being initialised"
    if any(not container.is_init and container.running_since for container in pod.containers):
        return "runs; its engine is not ready yet"
    return "is being set up on its node"
