"""Reads out of a live Job what the status is computed from: whether it ended, how, and how often it was tried."""

from dataclasses import dataclass
from datetime import datetime

from tierwright.kube.resources import Object


@dataclass(frozen=True)
class JobView:
    """One Job. ``reason`` and ``message`` are those of its end, empty while it runs."""

    name: str
    succeeded: bool
    failed: bool
    reason: str = ""
    message: str = ""
    failed_pods: int = 0
    """Tries that ended with an error."""
    giving_up: bool = False
    """Its end is decided, and its pods are being stopped."""
    seconds: int | None = None
    """From its start to its good end."""
    held_by: str = ""
    """The field by which a person or a queue keeps it from running, and its value; its deadline may stand still too."""

    @property
    def ended(self) -> bool:
        """Whether no more pods of it will run."""
        return self.succeeded or self.failed


def job_view(job: Object) -> JobView:
    """The parts of a Job that matter here."""
    status = job.get("status") or {}
    ends = {
        str(each.get("type")): each for each in status.get("conditions") or () if each.get("status") == "True"
    }
    end = ends.get("Failed") or {}
    return JobView(
        name=str(job["metadata"]["name"]),
        succeeded="Complete" in ends,
        failed="Failed" in ends,
        reason=str(end.get("reason") or ""),
        message=str(end.get("message") or ""),
        failed_pods=int(status.get("failed") or 0),
        seconds=_seconds(status.get("startTime"), status.get("completionTime")),
        giving_up="FailureTarget" in ends and "Failed" not in ends,
        held_by=_held_by(job.get("spec") or {}),
    )


def _held_by(spec: Object) -> str:
    if spec.get("suspend"):
        return "spec.suspend true"
    return "spec.parallelism 0" if spec.get("parallelism") == 0 else ""


def _seconds(start: str | None, end: str | None) -> int | None:
    if not start or not end:
        return None
    return max(0, round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()))
