"""Decides whether a Job compiles before the pods of a spec start, whether they wait for it, and what is remembered of it.

The Deployment remembers by an annotation which programs its pods need and what came of compiling them. As long as it
names other programs, and nothing stands in the way, the Deployment waits for the Job: pods of an earlier spec serve on.
A Job that ends, however it ends, lets the Deployment go on, and so does one that the API server refuses: compiling
delays a tier and never stops it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tierwright.api.conditions import Reason

_FAILURES: Final = (Reason.COMPILE_FAILED, Reason.COMPILE_TIMEOUT)
_OUTCOMES: Final = (Reason.COMPILED, Reason.COMPILES_AT_START, *_FAILURES)


@dataclass(frozen=True)
class CompileFacts:
    """What is known of the tier's live objects."""

    record: str | None = None
    """The annotation of the live Deployment."""
    jobs: Mapping[str, Reason | None] = field(default_factory=dict)
    """The tier's live Jobs by name, with how each ended; None while it runs."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Jobs by name that the API server refuses to make, in its own words."""
    has_pods: bool = False
    """Whether some pod of the tier may hold devices and volumes."""


@dataclass(frozen=True)
class CompileStep:
    """What happens about the compile volume now."""

    key: str
    """Which programs the present spec needs."""
    job: dict[str, Any]
    is_wanted: bool = False
    """The Job must exist, and the Deployment waits for its end."""
    is_left: bool = False
    """The Job has ended and is neither applied nor pruned: it is there to be looked into."""
    record: str | None = None
    """The annotation of the Deployment once it is applied; None while it waits."""
    refusal: str = ""
    """Why the API server refuses the Job; the Deployment does not wait for one that cannot be."""

    @property
    def job_name(self) -> str:
        """The Job's name."""
        return str(self.job["metadata"]["name"])


def compile_step(
    key: str, job: dict[str, Any], facts: CompileFacts | None, *, exclusive: bool, suspended: bool
) -> CompileStep:
    """The step to take.

    Args:
        key: from ``compile_key``.
        job: from ``compile_job``.
        facts: None for who wants to see what would be made, in the end.
        exclusive: whether the Job needs devices, or a volume, that the tier's pods do not share with it.
        suspended: whether the tier is to run nothing at all.
    """
    if facts is None:
        return CompileStep(key, job, is_wanted=True, record=_record(key, Reason.COMPILED))
    name = str(job["metadata"]["name"])
    ended = facts.jobs.get(name)
    if recorded_outcome(facts.record, key) is not None:
        return CompileStep(
            key, job, is_left=ended in _FAILURES, record=facts.record, refusal=facts.refused.get(name, "")
        )
    if ended is not None:
        return CompileStep(key, job, is_left=True, record=_record(key, ended))
    if name in facts.refused:
        return CompileStep(key, job, record=_record(key, Reason.COMPILE_FAILED), refusal=facts.refused[name])
    if suspended or (exclusive and facts.has_pods):
        return CompileStep(key, job, record=_record(key, Reason.COMPILES_AT_START))
    return CompileStep(key, job, is_wanted=True)


def recorded_outcome(record: str | None, key: str) -> Reason | None:
    """What a Deployment's annotation says came of these programs; None when it is about others, or says nothing."""
    for outcome in _OUTCOMES:
        if record == _record(key, outcome):
            return outcome
    return None


def _record(key: str, outcome: Reason) -> str:
    return f"{key} {outcome}"
