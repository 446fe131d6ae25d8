"""Decides what of the Job that fills a tier's compile volume matters to the children, and what there is to report."""

from collections.abc import Iterable, Mapping
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.control.apply_plan import controller_of
from tierwright.control.attempts import Attempts
from tierwright.desired.compile_step import CompileFacts, CompileStep, recorded_outcome
from tierwright.desired.labels import COMPILE_CACHE_ANNOTATION
from tierwright.kube.resources import JOB, Object
from tierwright.observe.jobs import JobView, job_view
from tierwright.observe.pods import pod_view
from tierwright.observe.snapshot import CompileView

_ENDED: Final = ("Failed", "Succeeded")


def compile_facts(
    workload: Object | None,
    jobs: Iterable[Object],
    pods: Iterable[Object],
    tier_uid: str,
    refused: Mapping[str, str],
) -> CompileFacts:
    """What the children depend on.

    Args:
        workload: the tier's live Deployment.
        jobs: live Jobs with the tier's label; those of another owner are left out.
        pods: live pods of the workload.
        tier_uid: the tier's uid.
        refused: from ``refused_jobs``.
    """
    views = [job_view(job) for job in jobs if _is_of(job, tier_uid)]
    return CompileFacts(
        record=_record(workload),
        jobs={view.name: outcome(view) for view in views},
        refused=refused,
        has_pods=workload is not None
        and any((pod.get("status") or {}).get("phase") not in _ENDED for pod in pods),
    )


def refused_jobs(attempts: Attempts | None) -> dict[str, str]:
    """Jobs by name that the API server refused when they were last applied, with its words."""
    refusals = {} if attempts is None else attempts.refusals
    return {ref.name: refusal.problem.message for ref, refusal in refusals.items() if ref.kind == JOB}


def outcome(job: JobView) -> Reason | None:
    """How a Job ended; None while it runs."""
    if job.succeeded:
        return Reason.COMPILED
    if not job.failed:
        return None
    return Reason.COMPILE_TIMEOUT if job.reason == "DeadlineExceeded" else Reason.COMPILE_FAILED


def job_of(step: CompileStep, jobs: Iterable[Object], tier_uid: str) -> Object | None:
    """The tier's own live Job of this step."""
    return next(
        (each for each in jobs if each["metadata"]["name"] == step.job_name and _is_of(each, tier_uid)), None
    )


def has_more_to_tell(job: Object) -> bool:
    """Whether the Job's pods say more than the Job: until it has succeeded."""
    return not job_view(job).succeeded


def compile_view(
    step: CompileStep, workload: Object | None, job: Object | None, pods: Iterable[Object]
) -> CompileView:
    """What there is to report.

    Args:
        step: what is to be compiled.
        workload: the tier's live Deployment.
        job: from ``job_of``.
        pods: live pods in the Job's namespace that carry its label; those of another owner are left out.
    """
    own = [pod_view(pod) for pod in pods if job is not None and _is_of(pod, str(job["metadata"]["uid"]))]
    return CompileView(
        job_name=step.job_name,
        outcome=recorded_outcome(_record(workload), step.key),
        job=None if job is None else job_view(job),
        pods=tuple(sorted(own, key=lambda pod: (pod.created, pod.name))),
        refusal=step.refusal,
    )


def _is_of(obj: Object, uid: str) -> bool:
    """Whether the object of this uid controls the other one."""
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == uid


def _record(workload: Object | None) -> str | None:
    annotations = ((workload or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(COMPILE_CACHE_ANNOTATION)
