"""Knows the Job that fills a tier's compile volume: what of it matters to the children, and what there is to report.

Pods of the Job do not carry the tier's label, or Services would send requests to them; so they are not watched, and
are read while the Job runs or when it has failed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tierwright.api.conditions import Reason
from tierwright.control.apply_plan import controller_of
from tierwright.control.attempts import Attempts
from tierwright.desired.compile_step import CompileFacts, CompileStep, recorded_outcome
from tierwright.desired.labels import COMPILE_CACHE_ANNOTATION
from tierwright.kube.errors import KubeError
from tierwright.kube.resources import JOB, POD, Object
from tierwright.kube.verbs import KubeClient
from tierwright.observe.jobs import JobView, job_view
from tierwright.observe.pods import PodView, pod_view
from tierwright.observe.snapshot import CompileView

_JOB_LABEL: Final = "batch.kubernetes.io/job-name"
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


async def compile_view(
    client: KubeClient,
    step: CompileStep | None,
    workload: Object | None,
    jobs: Iterable[Object],
    tier_uid: str,
) -> CompileView | None:
    """What there is to report; None where no Job ever compiles for the tier."""
    if step is None:
        return None
    job = next(
        (each for each in jobs if each["metadata"]["name"] == step.job_name and _is_of(each, tier_uid)), None
    )
    view = None if job is None else job_view(job)
    pods: tuple[PodView, ...] = ()
    if job is not None and view is not None and not view.succeeded:
        pods = await _pods_of(client, job)
    recorded = recorded_outcome(_record(workload), step.key)
    return CompileView(step.job_name, recorded, view, pods, step.refusal)


async def _pods_of(client: KubeClient, job: Object) -> tuple[PodView, ...]:
    """The Job's pods, the oldest first; none where they may not be read, since they only add words."""
    metadata: dict[str, Any] = job["metadata"]
    try:
        found = await client.list(
            POD, metadata["namespace"], label_selector=f"{_JOB_LABEL}={metadata['name']}"
        )
    except KubeError:
        return ()
    views = (pod_view(pod) for pod in found if _is_of(pod, str(metadata["uid"])))
    return tuple(sorted(views, key=lambda pod: (pod.created, pod.name)))


def _record(workload: Object | None) -> str | None:
    annotations = ((workload or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(COMPILE_CACHE_ANNOTATION)


def _is_of(obj: Object, uid: str) -> bool:
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == uid
