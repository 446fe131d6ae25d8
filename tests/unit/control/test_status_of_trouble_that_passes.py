"""Trouble that passes, comes back, or touches one replica of several; `troubles.py` has every kind of it by itself."""

from typing import Any

import pytest

from tests.unit.control.pods import (
    OFF_POOL,
    PULL,
    SCHEDULER,
    condition,
    container,
    deployment,
    event,
    get,
    pod,
    ready,
    ready_pod,
    snapshot,
    status_of,
    terminated,
    tier,
    unschedulable,
    waiting,
)
from tierwright.api.conditions import ConditionType, Reason
from tierwright.observe.snapshot import Snapshot


def test_preemption_words_that_name_nothing_to_do_are_left_out() -> None:
    assert "Preemption is not helpful" not in ready(snapshot(unschedulable(SCHEDULER))).message


def test_crash_loop_shows_although_the_deployment_was_once_available() -> None:
    rolled_out = deployment(1, conditions=[condition("Progressing", "True", "NewReplicaSetAvailable")])
    crashed = pod(
        containers=[container(restarts=9, state=waiting("CrashLoopBackOff"), last_state=terminated(1))]
    )
    view = snapshot(crashed, of=tier(replicas=1), workload=rolled_out)
    assert ready(view).reason == Reason.ENGINE_CRASHED


def test_serving_tier_still_names_what_keeps_its_last_replica_from_starting() -> None:
    view = snapshot(ready_pod("a"), unschedulable(SCHEDULER, "b"))
    condition_ = ready(view)
    assert (condition_.status, condition_.reason) == ("True", Reason.SERVING)
    assert "1 Insufficient nvidia.com/gpu" in condition_.message
    assert get(status_of(view), ConditionType.RECONCILING).reason == Reason.UNSCHEDULABLE


def test_image_pull_message_stays_while_the_kubelet_backs_off() -> None:
    backed_off = f'Back-off pulling image "registry.example/vllm:9": ErrImagePull: {PULL}'
    first, second = (
        ready(snapshot(pod(containers=[container(state=waiting(reason, message))])))
        for reason, message in (("ErrImagePull", PULL), ("ImagePullBackOff", backed_off))
    )
    assert first.message == second.message


def test_missing_pull_secret_is_named_next_to_the_failed_pull() -> None:
    words = (
        "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed."
    )
    view = snapshot(
        pod(containers=[container(state=waiting("ErrImagePull", "unauthorized"))]),
        events=[event("Pod", "llama-fast-1", "FailedToRetrieveImagePullSecret", words)],
    )
    assert "regcred" in ready(view).message


def test_pod_that_no_scheduler_has_seen_yet_waits() -> None:
    unseen = pod(node="", phase="Pending", containers=[], conditions=[])
    unseen["status"]["conditions"] = []
    assert ready(snapshot(unseen)).reason == Reason.STARTING


def test_old_volume_trouble_is_forgotten_once_pods_have_nodes() -> None:
    trouble = [event("PersistentVolumeClaim", "c", "ProvisioningFailed", 'storageclass "x" not found')]
    assert ready(snapshot(pod(), events=trouble)).reason == Reason.STARTING


def test_stuck_rollout_is_stalled_with_its_cause_once_the_deadline_is_over() -> None:
    late = deployment(
        2, conditions=[condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out")]
    )
    broken = pod(containers=[container(state=waiting("ErrImagePull", PULL))])
    status = status_of(snapshot(broken, workload=late))
    stalled = get(status, ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", Reason.IMAGE_PULL_FAILED)
    assert get(status, ConditionType.RECONCILING).status == "False"


def test_stuck_rollout_without_a_visible_cause_says_so() -> None:
    late = deployment(2, conditions=[condition("Progressing", "False", "ProgressDeadlineExceeded")])
    stalled = get(status_of(snapshot(pod(), workload=late)), ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", Reason.PROGRESS_DEADLINE_EXCEEDED)


@pytest.mark.parametrize(
    ("view", "status", "reason"),
    [
        (snapshot(unschedulable(SCHEDULER)), "False", Reason.UNSCHEDULABLE),
        (snapshot(unschedulable(OFF_POOL)), "False", Reason.NODE_POOL_EMPTY),
        (snapshot(pod("a"), pod("b")), "True", Reason.ALL_PLACED),
        (snapshot(pod("a")), "Unknown", Reason.WAITING),
        (snapshot(wanted=0), "Unknown", Reason.NO_PODS),
    ],
    ids=["no device", "no node in the pool", "all placed", "one pod is missing", "none wanted"],
)
def test_scheduled_repeats_the_scheduler(view: Snapshot, status: Any, reason: Reason) -> None:
    condition_ = get(status_of(view), ConditionType.SCHEDULED)
    assert (condition_.status, condition_.reason) == (status, reason)


def test_remains_of_an_evicted_pod_say_nothing_once_others_serve() -> None:
    evicted = pod("c", phase="Failed", containers=[], status={"reason": "Evicted", "message": "low on disk"})
    serving = ready(snapshot(ready_pod("a"), ready_pod("b"), evicted))
    assert (serving.status, serving.message) == ("True", "2 of 2 replicas are ready")
    assert "low on disk" in ready(snapshot(ready_pod("a"), evicted)).message
