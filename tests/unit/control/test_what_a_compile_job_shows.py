"""What there is to report of a compile Job is decided from live objects: its own Job, its own pods, the oldest first."""

from typing import Any

from tests.unit.control.pods import pod
from tests.unit.control.test_compile_cache_ready import NAME, job
from tierwright.api.conditions import Reason
from tierwright.control.compiling import compile_view, has_more_to_tell, job_of
from tierwright.desired.compile_step import CompileStep

Object = dict[str, Any]


def step(name: str = NAME, refusal: str = "") -> CompileStep:
    return CompileStep(key="abc", job={"metadata": {"name": name}}, refusal=refusal)


def try_of(job_uid: str, name: str, created: str) -> Object:
    """A pod of the Job of this uid."""
    found: Object = pod(name)
    owner = {"controller": True, "uid": job_uid, "kind": "Job"}
    return {
        **found,
        "metadata": {**found["metadata"], "creationTimestamp": created, "ownerReferences": [owner]},
    }


def test_a_job_of_the_same_name_that_is_anothers_is_not_the_tiers() -> None:
    mine, other = job(), job(owner="u-2")
    assert job_of(step(), [other, mine], "u-1") is mine
    assert job_of(step(), [other], "u-1") is None
    assert job_of(step("another"), [mine], "u-1") is None


def test_pods_are_asked_for_until_the_job_has_succeeded() -> None:
    assert has_more_to_tell(job())
    assert has_more_to_tell(job(("Failed", "DeadlineExceeded", "")))
    assert not has_more_to_tell(job(("Complete", "CompletionsReached", "")))


def test_the_jobs_own_pods_are_told_the_oldest_first() -> None:
    second = try_of("j-1", "b", "2026-11-30T11:02:00Z")
    first = try_of("j-1", "a", "2026-11-30T11:01:00Z")
    foreign = try_of("j-2", "c", "2026-11-30T11:00:00Z")
    found = compile_view(step(refusal="forbidden"), None, job(), [second, foreign, first])
    assert [each.name for each in found.pods] == ["a", "b"]
    assert (found.job_name, found.refusal, found.outcome) == (NAME, "forbidden", None)
    assert found.job is not None


def test_a_job_that_is_gone_leaves_what_the_workload_remembers_of_this_very_step() -> None:
    def workload(record: str) -> Object:
        return {"metadata": {"annotations": {"tierwright.dev/compile-cache": record}}}

    found = compile_view(step(), workload("abc Compiled"), None, [try_of("j-1", "a", "")])
    assert (found.outcome, found.job, found.pods) == (Reason.COMPILED, None, ())
    assert compile_view(step(), workload("old Compiled"), None, []).outcome is None
