"""Reads the pods of the Job that fills a tier's compile volume, while it runs or when it has failed.

They do not carry the tier's label, or Services would send requests to them; so they are not watched.
"""

from collections.abc import Iterable
from typing import Any, Final

from tierwright.control.compiling import compile_view, has_more_to_tell, job_of
from tierwright.desired.compile_step import CompileStep
from tierwright.kube.errors import KubeError
from tierwright.kube.resources import POD, Object
from tierwright.kube.verbs import KubeClient
from tierwright.observe.snapshot import CompileView

_JOB_LABEL: Final = "batch.kubernetes.io/job-name"


async def read_compile_view(
    client: KubeClient,
    step: CompileStep | None,
    workload: Object | None,
    jobs: Iterable[Object],
    tier_uid: str,
) -> CompileView | None:
    """What there is to report; None where no Job ever compiles for the tier."""
    if step is None:
        return None
    job = job_of(step, jobs, tier_uid)
    pods = await _pods_of(client, job) if job is not None and has_more_to_tell(job) else []
    return compile_view(step, workload, job, pods)


async def _pods_of(client: KubeClient, job: Object) -> list[Object]:
    """Pods with the Job's label; none where they may not be read, since they only add words."""
    metadata: dict[str, Any] = job["metadata"]
    selector = f"{_JOB_LABEL}={metadata['name']}"
    try:
        return await client.list(POD, metadata["namespace"], label_selector=selector)
    except KubeError:
        return []
