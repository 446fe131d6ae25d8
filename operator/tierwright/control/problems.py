"""Turns an error of the API server into a reason and words for the status (rule 13)."""

from tierwright.api.conditions import Reason
from tierwright.kube.errors import ApiError, KubeError, Verdict
from tierwright.kube.resources import ObjectRef
from tierwright.observe.snapshot import Problem


def problem_of(ref: ObjectRef, error: KubeError) -> Problem:
    """What to say when ``ref`` could not be written."""
    passing = error.verdict is Verdict.RETRY
    return Problem(_reason(error), f"{ref.kind.kind} {ref.name}: {error}", passing=passing)


def _reason(error: KubeError) -> Reason:
    if error.verdict is Verdict.RETRY or not isinstance(error, ApiError):
        return Reason.API_UNAVAILABLE
    if error.status in (401, 403):
        return Reason.QUOTA_EXCEEDED if "exceeded quota" in error.message else Reason.FORBIDDEN
    if error.status in (404, 405):
        return Reason.KIND_MISSING
    return Reason.REJECTED
