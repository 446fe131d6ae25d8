"""Turns an error of the API server, and a fight over an object, into a reason and words for the status (rule 13)."""

from tierwright.api.conditions import Reason
from tierwright.kube.errors import ApiError, KubeError, Verdict
from tierwright.kube.resources import ObjectRef
from tierwright.observe.snapshot import Problem


def problem_of(ref: ObjectRef, error: KubeError) -> Problem:
    """What to say when ``ref`` could not be written."""
    passing = error.verdict is Verdict.RETRY
    ends = isinstance(error, ApiError) and error.namespace_ends
    return Problem(_reason(error), f"{ref.kind.kind} {ref.name}: {error}", passing, ends)


def fought_over(ref: ObjectRef, fields: tuple[str, ...]) -> Problem:
    """What to say when something undoes each write some time later."""
    return Problem(
        Reason.DRIFT_NOT_CORRECTED,
        f"{ref.kind.kind} {ref.name}: something changes {', '.join(fields[:5])} again and again; it is applied once"
        " more at the next resync; look for another controller, or a second operator of another version",
    )


def not_corrected(ref: ObjectRef, fields: tuple[str, ...]) -> Problem:
    """What to say when the server's answer to a write shows that it was changed on its way."""
    return Problem(
        Reason.DRIFT_NOT_CORRECTED,
        f"{ref.kind.kind} {ref.name}: something changes {', '.join(fields[:5])} back right after each apply;"
        " look for an admission webhook or policy",
    )


def _reason(error: KubeError) -> Reason:
    if error.verdict is Verdict.RETRY or not isinstance(error, ApiError):
        return Reason.API_UNAVAILABLE
    if error.status in (401, 403):
        return Reason.QUOTA_EXCEEDED if "exceeded quota" in error.message else Reason.FORBIDDEN
    if error.status in (404, 405):
        return Reason.KIND_MISSING
    return Reason.REJECTED
