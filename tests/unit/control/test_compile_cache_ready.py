"""CompileCacheReady says what the compile Job does, why it failed, and that pods that are ready have compiled."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.control.pods import (
    NOW,
    OFF_POOL,
    PULL,
    container,
    deployment,
    get,
    pod,
    ready_pod,
    snapshot,
    status_of,
    terminated,
    unschedulable,
    waiting,
)
from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import Condition, TierStatus
from tierwright.control.attempts import Attempts
from tierwright.control.compiling import compile_facts, outcome, refused_jobs
from tierwright.control.status.transitions import transitions
from tierwright.kube.resources import JOB, PVC, ObjectRef
from tierwright.observe.jobs import JobView, job_view
from tierwright.observe.pods import EventView, pod_view
from tierwright.observe.snapshot import CompileView, Problem, Snapshot

NAME = "llama-fast-compile-1a2b3c4d"
RUNNING = JobView(NAME, succeeded=False, failed=False)
COMPILER = "[NCC_EXTP004] internal compiler error: instruction limit"


def view(
    outcome: Reason | None = None, job: JobView | None = None, *pods: dict[str, Any], replicas: int = 2
) -> Snapshot:
    compiling = CompileView(NAME, outcome, job, tuple(pod_view(each) for each in pods))
    return snapshot(
        compile=compiling, workload=deployment(replicas), waiting_for=() if outcome else (f"Job {NAME}",)
    )


def cache_ready(of: Snapshot, previous: TierStatus | None = None) -> Condition:
    return get(status_of(of, previous), ConditionType.COMPILE_CACHE_READY)


def job(
    *conditions: tuple[str, str, str], failed: int = 0, owner: str = "u-1", name: str = NAME
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "serving",
            "uid": "j-1",
            "ownerReferences": [{"controller": True, "uid": owner, "kind": "InferenceTier"}],
        },
        "status": {
            "failed": failed,
            "conditions": [
                {"type": kind, "status": "True", "reason": reason, "message": words}
                for kind, reason, words in conditions
            ],
        },
    }


def failed(reason: str = "BackoffLimitExceeded", words: str = "Job has reached the limit") -> JobView:
    return job_view(job(("Failed", reason, words), failed=3))


def failed_try(
    name: str = "llama-fast-compile-1a2b3c4d-x", words: str = COMPILER, code: int = 1
) -> dict[str, Any]:
    ended = [container("engine", state=terminated(code, message=words))]
    return pod(name, phase="Failed", containers=ended, created=f"2026-11-30T11:0{len(name) % 10}:00Z")


def test_tiers_for_which_nothing_compiles_do_not_have_it() -> None:
    kinds = {each.type for each in status_of(snapshot(ready_pod())).conditions}
    assert ConditionType.COMPILE_CACHE_READY not in kinds


@pytest.mark.parametrize("of", [None, RUNNING])
def test_a_job_that_runs_or_is_about_to_is_told_by_name(of: JobView | None) -> None:
    said = cache_ready(view(None, of))
    assert (said.status, said.reason) == ("False", Reason.COMPILING)
    assert NAME in said.message


def test_a_job_that_is_not_there_is_not_said_to_work() -> None:
    """The tier is paused, or an object of somebody else's has the Job's name."""
    assert "is not there" in cache_ready(view(None, None)).message


@pytest.mark.parametrize(
    ("spec", "words"),
    [({"suspend": True}, "spec.suspend true"), ({"suspend": False, "parallelism": 0}, "spec.parallelism 0")],
)
def test_a_job_that_is_held_by_hand_or_by_a_queue_is_not_said_to_work(
    spec: dict[str, Any], words: str
) -> None:
    """Its deadline stands still meanwhile, so the tier would wait without an end and without a word."""
    said = cache_ready(view(None, job_view({**job(), "spec": spec})))
    assert (said.status, said.reason) == ("False", Reason.COMPILING)
    assert f"its {words} keeps it from running" in said.message
    at_work = job_view({**job(), "spec": {"suspend": False, "parallelism": 1}})
    assert "keeps it" not in cache_ready(view(None, at_work)).message


def test_what_holds_the_job_up_is_told_on_both_conditions() -> None:
    """The pods wait for the Job, so what the Job waits for is why the tier is not ready."""
    stuck = view(None, RUNNING, pod(containers=[container(state=waiting("ImagePullBackOff", PULL))]))
    assert PULL in cache_ready(stuck).message
    ready = get(status_of(stuck), ConditionType.READY)
    assert (ready.status, ready.reason) == ("False", Reason.IMAGE_PULL_FAILED)
    off = view(None, RUNNING, unschedulable(OFF_POOL))
    assert get(status_of(off), ConditionType.READY).reason == Reason.NODE_POOL_EMPTY


def test_pods_of_the_job_that_are_refused_are_told_with_their_reason() -> None:
    words = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0'
    refused = replace(view(None, RUNNING), events=(EventView("Job", NAME, "FailedCreate", words),))
    assert words in cache_ready(refused).message
    assert get(status_of(refused), ConditionType.READY).reason == Reason.QUOTA_EXCEEDED
    later = replace(view(None, RUNNING, pod()), events=refused.events)
    assert words not in cache_ready(later).message, "it has a pod by now"


def test_a_job_that_the_api_server_refuses_is_told_in_its_words() -> None:
    refused = CompileView(NAME, Reason.COMPILE_FAILED, None, (), "Job x: no Jobs here")
    said = cache_ready(snapshot(compile=refused))
    assert (said.reason, said.message) == (
        Reason.COMPILE_FAILED,
        "Job x: no Jobs here; the pods compile by themselves",
    )


def test_what_was_refused_is_known_by_the_jobs_name() -> None:
    attempts = Attempts()
    problem = Problem(Reason.FORBIDDEN, "no Jobs here")
    attempts.refused(ObjectRef(JOB, "serving", NAME), "1", problem, NOW, final=False)
    attempts.refused(ObjectRef(PVC, "serving", "other"), "1", problem, NOW, final=False)
    assert refused_jobs(attempts) == {NAME: "no Jobs here"}
    assert refused_jobs(None) == {}


def test_a_try_that_failed_is_told_while_the_next_one_runs() -> None:
    again = job_view(job(failed=1))
    said = cache_ready(view(None, again, failed_try(), pod("llama-fast-compile-1a2b3c4d-y")))
    assert said.reason == Reason.COMPILING
    assert "try 2 of 3" in said.message
    assert COMPILER in said.message


def test_a_job_that_failed_says_its_last_words() -> None:
    """aws-neuron-sdk#1369: the reason of a failed compilation was nowhere to be seen."""
    said = cache_ready(view(Reason.COMPILE_FAILED, failed(), failed_try("a", "first"), failed_try("bb")))
    assert (said.status, said.reason) == ("False", Reason.COMPILE_FAILED)
    assert COMPILER in said.message
    assert "exit code 1" in said.message
    assert "Job has reached the limit" in said.message


def test_a_download_that_failed_in_the_job_is_told() -> None:
    fetch = container("fetch-weights", state=terminated(1, message="401 Client Error"))
    said = cache_ready(view(None, failed(), pod(phase="Failed", init=[fetch], containers=[container()])))
    assert "container fetch-weights" in said.message
    assert "401 Client Error" in said.message


def test_a_try_without_words_says_where_to_look() -> None:
    assert "kubectl logs" in cache_ready(view(None, failed(), failed_try(words=""))).message


def test_a_deadline_is_a_reason_of_its_own_and_keeps_what_was_known() -> None:
    """The deadline deletes the pods that still ran, and what could be read of them."""
    late = failed("DeadlineExceeded", "Job was active longer than specified deadline")
    before = status_of(view(None, RUNNING, unschedulable(OFF_POOL)))
    said = cache_ready(view(None, late), before)
    assert said.reason == Reason.COMPILE_TIMEOUT
    assert "didn't match Pod's node affinity" in said.message
    giving_up = job_view(job(("FailureTarget", "DeadlineExceeded", ""), failed=1))
    assert giving_up.giving_up
    between = status_of(view(None, giving_up), before)
    assert get(between, ConditionType.COMPILE_CACHE_READY).message in said.message
    assert cache_ready(view(None, late), between).message == said.message
    assert "try 2 of 3" in cache_ready(view(None, giving_up)).message, "nothing was known"
    after = TierStatus(conditions=[said])
    assert cache_ready(view(Reason.COMPILE_TIMEOUT, late), after).message == said.message


def test_the_words_of_a_failure_outlive_the_job() -> None:
    before = status_of(view(None, failed(), failed_try()))
    said = cache_ready(view(Reason.COMPILE_FAILED, None), before)
    assert COMPILER in said.message
    assert "by themselves" in cache_ready(view(Reason.COMPILE_FAILED, None)).message
    assert "by themselves" in cache_ready(view(Reason.COMPILE_TIMEOUT, None), before).message


def test_a_job_without_a_reason_says_so() -> None:
    assert "no reason is given" in cache_ready(view(None, failed("", ""))).message


def test_compiled_programs_are_ready() -> None:
    for of in (view(Reason.COMPILED), view(None, job_view(job(("Complete", "", ""))))):
        said = cache_ready(of)
        assert (said.status, said.reason) == ("True", Reason.COMPILED)


def test_how_long_compiling_took_is_told_and_outlives_the_job() -> None:
    """kaito#2325: nobody could tell which of 966 seconds to ready went into compiling."""
    done = job(("Complete", "", ""))
    done["status"] |= {"startTime": "2026-11-30T11:00:00Z", "completionTime": "2026-11-30T11:03:15Z"}
    before = status_of(view(Reason.COMPILED, job_view(done)))
    said = cache_ready(view(Reason.COMPILED), before)
    assert f"Job {NAME} took 195 s" in said.message


@pytest.mark.parametrize("recorded", [Reason.COMPILES_AT_START, Reason.COMPILE_FAILED])
def test_a_pod_of_the_present_spec_that_is_ready_has_compiled(recorded: Reason) -> None:
    compiling = CompileView(NAME, recorded, None)
    serving = snapshot(ready_pod(), compile=compiling, workload=deployment(1), wanted=1)
    assert cache_ready(serving).status == "True"
    rolling = snapshot(ready_pod(), compile=compiling, workload=deployment(2, updated=1), wanted=2)
    assert (cache_ready(rolling).status, cache_ready(rolling).reason) == ("False", recorded)


def test_a_failure_is_one_event_and_the_normal_course_is_none() -> None:
    compiling = status_of(view(None, RUNNING))
    broken = status_of(view(Reason.COMPILE_FAILED, failed(), failed_try()), compiling)
    (event,) = transitions(compiling, broken)
    assert (event.type, event.reason) == ("Warning", Reason.COMPILE_FAILED)
    assert COMPILER in event.message
    assert transitions(broken, status_of(view(Reason.COMPILE_FAILED, None), broken)) == ()


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), None),
        ((("SuccessCriteriaMet", "", ""),), None),
        ((("FailureTarget", "BackoffLimitExceeded", ""),), None),
        ((("Complete", "CompletionsReached", ""),), Reason.COMPILED),
        ((("Failed", "BackoffLimitExceeded", ""),), Reason.COMPILE_FAILED),
        ((("Failed", "PodFailurePolicy", ""),), Reason.COMPILE_FAILED),
        ((("Failed", "DeadlineExceeded", ""),), Reason.COMPILE_TIMEOUT),
    ],
)
def test_a_job_has_ended_only_when_no_pod_of_it_runs_any_more(
    conditions: tuple[tuple[str, str, str], ...], expected: Reason | None
) -> None:
    assert outcome(job_view(job(*conditions))) is expected


def test_jobs_of_another_owner_are_not_the_tiers() -> None:
    mine, other = job(("Complete", "", "")), job(owner="u-2", name="other")
    orphan: dict[str, Any] = {"metadata": {"name": "orphan", "namespace": "serving"}}
    assert compile_facts(None, [mine, other, orphan], [], "u-1", {}).jobs == {NAME: Reason.COMPILED}


def test_pods_count_as_long_as_they_may_hold_a_device() -> None:
    workload = {"metadata": {"annotations": {"tierwright.dev/compile-cache": "abc Compiled"}}}
    going, gone = pod(deleting=True), pod(phase="Succeeded")
    assert compile_facts(workload, [], [going], "u-1", {}).has_pods
    assert not compile_facts(workload, [], [gone], "u-1", {}).has_pods
    assert not compile_facts(None, [], [going], "u-1", {}).has_pods, "they are those of a deleted tier"
    assert compile_facts(workload, [], [], "u-1", {}).record == "abc Compiled"
    assert compile_facts({"metadata": {}}, [], [], "u-1", {}).record is None
