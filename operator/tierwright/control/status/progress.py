"""Decides Reconciling and Stalled, the words that Flux, Helm and kstatus wait for; the two are never both true.

A cause in the pods (an image that cannot be pulled, no free device) may pass by itself, so it leaves the tier
Reconciling until the Deployment's progress deadline is over. Stalled at once is what no waiting can mend: a spec that
cannot be carried out, and children that the API server refuses.
"""

from tierwright.api.conditions import Reason
from tierwright.api.tier import PAUSED_ANNOTATION
from tierwright.control.status.causes import joined
from tierwright.control.status.draft import Draft
from tierwright.observe.pods import WorkloadView
from tierwright.observe.snapshot import Finding, Snapshot, Stage


def stalled(snapshot: Snapshot, found: tuple[Finding, ...]) -> Draft:
    """Whether nothing will move before a person acts."""
    if snapshot.stage is Stage.DELETING:
        return Draft("False", Reason.DELETING, "the tier is being deleted")
    if snapshot.refusal is not None:
        return Draft("True", snapshot.refusal.reason, snapshot.refusal.message)
    if snapshot.stage is Stage.PAUSED:
        return Draft("False", Reason.PAUSED, "hands off, as asked for")
    lasting = [problem for problem in snapshot.problems if not problem.passing]
    if lasting:
        return Draft("True", lasting[0].reason, joined(lasting))
    if _deadline_passed(snapshot):
        reason = found[0].reason if found else Reason.PROGRESS_DEADLINE_EXCEEDED
        words = joined(found) or "the rollout made no progress within its deadline"
        return Draft("True", reason, words)
    if is_settled(snapshot):
        return Draft("False", Reason.SETTLED, "nothing stands in the way")
    return Draft(
        "False",
        Reason.PROGRESSING,
        "this may still come right without an edit of the tier; Ready says what it waits for",
    )


def reconciling(snapshot: Snapshot, found: tuple[Finding, ...]) -> Draft:
    """Whether the tier is on its way to what the spec asks for."""
    if snapshot.stage is Stage.DELETING:
        return Draft("True", Reason.DELETING, "children are being deleted with the tier")
    if snapshot.stage is Stage.PAUSED:
        return Draft("False", Reason.PAUSED, f"annotation {PAUSED_ANNOTATION}: children are left as they are")
    stall = stalled(snapshot, found)
    if stall.status == "True":
        return Draft("False", stall.reason, stall.message)
    passing = [problem for problem in snapshot.problems if problem.passing]
    if passing:
        return Draft("True", passing[0].reason, joined(passing))
    if snapshot.waiting_for:
        return Draft("True", Reason.APPLYING, f"waits for the end of {', '.join(snapshot.waiting_for)}")
    if is_settled(snapshot):
        return Draft("False", Reason.SETTLED, "all is as the spec asks for")
    if found:
        return Draft("True", found[0].reason, joined(found))
    if snapshot.workload is not None and _has_old_pods(snapshot.workload):
        return Draft("True", Reason.ROLLING_OUT, "pods are being replaced by those of the present spec")
    return Draft(
        "True", Reason.PROGRESSING, f"{snapshot.ready_count} of {snapshot.wanted} replicas are ready"
    )


def is_settled(snapshot: Snapshot) -> bool:
    """Whether all that is wanted is there, of the present spec, and ready."""
    workload = snapshot.workload
    return (
        workload is not None
        and not is_rolling_out(workload)
        and workload.replicas == snapshot.wanted
        and len(snapshot.active_pods) == snapshot.wanted
        and snapshot.ready_count == snapshot.wanted
    )


def is_rolling_out(workload: WorkloadView) -> bool:
    """Whether the Deployment's controller has not yet seen its spec, or still has pods of an older one."""
    return (
        workload.observed_generation < workload.generation
        or workload.updated < workload.replicas
        or workload.total > workload.updated
    )


def _has_old_pods(workload: WorkloadView) -> bool:
    return workload.total > workload.updated or (
        workload.observed_generation < workload.generation and workload.total > 0
    )


def _deadline_passed(snapshot: Snapshot) -> bool:
    progressing = snapshot.workload.condition("Progressing") if snapshot.workload else None
    return (
        progressing is not None
        and progressing.status == "False"
        and progressing.reason == "ProgressDeadlineExceeded"
        and not is_settled(snapshot)
    )
