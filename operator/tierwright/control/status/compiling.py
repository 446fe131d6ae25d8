"""Decides CompileCacheReady: whether the programs that the present spec needs lie on the tier's shared compile volume."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.api.status import Condition
from tierwright.control.compiling import outcome
from tierwright.control.status.causes import causes, joined
from tierwright.control.status.draft import Draft
from tierwright.control.status.placement import pods_refused
from tierwright.control.status.progress import is_rolling_out
from tierwright.control.status.words import tail
from tierwright.desired.compile_job import TRIES
from tierwright.observe.jobs import JobView
from tierwright.observe.pods import PodView
from tierwright.observe.snapshot import CompileView, Finding, Snapshot

_READY: Final = "the programs of the present spec are on the compile volume"
_GENERIC: Final = {
    Reason.COMPILE_FAILED: "compiling beforehand failed; the pods compile by themselves",
    Reason.COMPILE_TIMEOUT: "compiling beforehand took too long; the pods compile by themselves",
}


def compile_cache_ready(
    snapshot: Snapshot, found: tuple[Finding, ...], previous: Condition | None
) -> Draft | None:
    """The condition; None where no Job ever compiles for the tier.

    Args:
        snapshot: the tier.
        found: from ``compile_causes``.
        previous: what was said before; the words of a failure outlive the Job that failed.
    """
    view = snapshot.compile
    if view is None:
        return None
    said = view.outcome or (outcome(view.job) if view.job is not None else None)
    if said is Reason.COMPILED or (view.outcome is not None and _pods_have_compiled(snapshot)):
        return Draft("True", Reason.COMPILED, _compiled(view.job, previous))
    if said is None:
        return Draft("False", Reason.COMPILING, _progress(view, found, previous))
    if said is Reason.COMPILES_AT_START:
        return Draft(
            "False", said, "the first pod of this spec compiles: no devices or volume are free for a Job"
        )
    if view.job is not None and view.job.failed:
        return Draft("False", said, _failure(view.job, view.pods, previous))
    if view.refusal:
        return Draft("False", said, f"{view.refusal}; the pods compile by themselves")
    kept = previous.message if previous is not None and previous.reason == said else _GENERIC[said]
    return Draft("False", said, kept)


def compile_causes(snapshot: Snapshot) -> tuple[Finding, ...]:
    """What keeps the Job's pods from running, the first to mend first; the tier waits for it while it waits for them."""
    view = snapshot.compile
    if view is None or view.job is None or view.job.ended:
        return ()
    for event in snapshot.events_of("Job", view.job_name, "FailedCreate") if view.lacks_pods else ():
        return (pods_refused(f"pods of Job {view.job_name} are refused", event.message),)
    return causes(replace(snapshot, pods=view.pods, workload=None, scale=None, problems=()))


def _compiled(job: JobView | None, previous: Condition | None) -> str:
    """Says how long it took, also when the Job is gone."""
    if job is not None and job.seconds is not None:
        return f"{_READY}; Job {job.name} took {job.seconds} s"
    return previous.message if previous is not None and previous.reason == Reason.COMPILED else _READY


def _pods_have_compiled(snapshot: Snapshot) -> bool:
    """A pod of the present spec is ready only with all its programs, which it keeps on the volume."""
    workload = snapshot.workload
    return workload is not None and snapshot.ready_count > 0 and not is_rolling_out(workload)


def _progress(view: CompileView, found: Iterable[Finding], previous: Condition | None) -> str:
    if view.job is not None and view.job.giving_up and previous is not None and _is_about(previous, view):
        return previous.message  # its pods go first, and with them what held it up
    words = [_what_it_does(view)]
    if view.job is not None and view.job.failed_pods:
        words[0] += f", try {min(view.job.failed_pods + 1, TRIES)} of {TRIES}"
        words.append(_last_words(view.pods))
    return "; ".join(filter(None, [*words, joined(found)]))


def _what_it_does(view: CompileView) -> str:
    if view.job is None:
        return f"Job {view.job_name} is to fill the compile volume, and is not there"
    if view.job.held_by:
        return f"Job {view.job_name} is to fill the compile volume, and its {view.job.held_by} keeps it from running"
    return f"Job {view.job_name} fills the compile volume"


def _is_about(condition: Condition, view: CompileView) -> bool:
    return condition.reason == Reason.COMPILING and view.job_name in condition.message


def _failure(job: JobView, pods: Iterable[PodView], previous: Condition | None) -> str:
    words = [f"Job {job.name} failed: {job.message or job.reason or 'no reason is given'}"]
    last = _last_words(pods)
    if last:
        words.append(last)
    elif previous is not None and previous.reason == Reason.COMPILING:  # a deadline takes the pods with it
        words.append(f"before that: {tail(previous.message)}")
    elif previous is not None and previous.message.startswith(words[0]):
        return previous.message
    return "; ".join([*words, "the pods compile by themselves"])


def _last_words(pods: Iterable[PodView]) -> str:
    """How the newest try that failed ended."""
    for pod in reversed(tuple(pods)):
        for container in pod.containers:
            if container.exit is not None and container.exit.code:
                words = tail(container.exit.message) or f"see kubectl logs {pod.name} -c {container.name}"
                return f"pod {pod.name}, container {container.name} ended with exit code {container.exit.code}: {words}"
    return ""
