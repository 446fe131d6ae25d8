"""Every way in which pods do not serve is named by its reason, with words a person can act on."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.control.pods import (
    NOW,
    condition,
    container,
    deployment,
    event,
    pod,
    ready_pod,
    running,
    snapshot,
    terminated,
    tier,
    unschedulable,
    waiting,
)
from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import Condition, TierStatus
from tierwright.control.status.compute import compute_status
from tierwright.control.status.transitions import transitions
from tierwright.observe.pods import EventView, PodView, VolumeClaimView
from tierwright.observe.snapshot import Finding, Problem, Snapshot, Stage

SCHEDULER = (
    "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector."
    " no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
)
OFF_POOL = (
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are"
    " available: 3 Preemption is not helpful for scheduling."
)
TAINTED = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector."
QUOTA = (
    'pods "llama-fast-7d9f-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1,'
    " used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2"
)
NO_SECRET = 'secret "hf" not found'
NO_KEY = "couldn't find key token in Secret serving/hf"
PULL = 'failed to resolve reference "registry.example/vllm:9": not found'


def status_of(view: Snapshot, previous: TierStatus | None = None) -> TierStatus:
    return compute_status(view, previous or TierStatus(), NOW)


def get(status: TierStatus, kind: ConditionType) -> Condition:
    return next(each for each in status.conditions if each.type == kind)


def ready(view: Snapshot) -> Condition:
    return get(status_of(view), ConditionType.READY)


CASES: list[tuple[str, Snapshot, Reason, str]] = [
    (
        "no free device: the scheduler's own words",
        snapshot(unschedulable(SCHEDULER)),
        Reason.UNSCHEDULABLE,
        "1 Insufficient nvidia.com/gpu",
    ),
    (
        "no node is in the pool",
        snapshot(unschedulable(OFF_POOL)),
        Reason.NODE_POOL_EMPTY,
        "no node that the tier tolerates matches its node pool",
    ),
    (
        "the cluster has no nodes at all",
        snapshot(unschedulable("no nodes available to schedule pods")),
        Reason.NODE_POOL_EMPTY,
        "no nodes available",
    ),
    (
        "no node is in the pool, and others are tainted as well",
        snapshot(unschedulable(TAINTED)),
        Reason.NODE_POOL_EMPTY,
        "no node that the tier tolerates matches its node pool",
    ),
    (
        "the cluster has been emptied",
        snapshot(unschedulable("0/0 nodes are available:")),
        Reason.NODE_POOL_EMPTY,
        "0/0 nodes",
    ),
    (
        "the pool's taint is not tolerated",
        snapshot(
            unschedulable(
                "0/2 nodes are available: 2 node(s) had untolerated taint(s) {nvidia.com/gpu: present}."
            )
        ),
        Reason.UNSCHEDULABLE,
        "untolerated taint",
    ),
    (
        "pods go over the namespace's quota",
        snapshot(
            workload=deployment(2, conditions=[condition("ReplicaFailure", "True", "FailedCreate", QUOTA)])
        ),
        Reason.QUOTA_EXCEEDED,
        "requests.nvidia.com/gpu=2",
    ),
    (
        "an admission rule refuses the pods",
        snapshot(
            workload=deployment(
                2,
                conditions=[
                    condition(
                        "ReplicaFailure",
                        "True",
                        "FailedCreate",
                        'pods "x" is forbidden: violates PodSecurity',
                    )
                ],
            )
        ),
        Reason.FORBIDDEN,
        "violates PodSecurity",
    ),
    (
        "the pod template makes no valid pod",
        snapshot(
            workload=deployment(
                2,
                conditions=[condition("ReplicaFailure", "True", "FailedCreate", 'Pod "x" is invalid: spec')],
            )
        ),
        Reason.REJECTED,
        "is invalid",
    ),
    (
        "the image does not exist",
        snapshot(pod(containers=[container(state=waiting("ErrImagePull", PULL))])),
        Reason.IMAGE_PULL_FAILED,
        "not found",
    ),
    (
        "the image name is no image name",
        snapshot(pod(containers=[container(state=waiting("InvalidImageName", "couldn't parse image name"))])),
        Reason.IMAGE_PULL_FAILED,
        "couldn't parse",
    ),
    (
        "the init container's image does not exist",
        snapshot(
            pod(
                init=[container("fetch-weights", state=waiting("ImagePullBackOff", PULL))],
                containers=[container(state=waiting("PodInitializing"))],
            )
        ),
        Reason.IMAGE_PULL_FAILED,
        "container fetch-weights",
    ),
    (
        "the token's Secret is missing",
        snapshot(pod(containers=[container(state=waiting("CreateContainerConfigError", NO_SECRET))])),
        Reason.SECRET_MISSING,
        'secret "hf" not found',
    ),
    (
        "the Secret lacks the key",
        snapshot(pod(containers=[container(state=waiting("CreateContainerConfigError", NO_KEY))])),
        Reason.SECRET_MISSING,
        "key token",
    ),
    (
        "a Secret that is mounted is missing",
        snapshot(
            pod(containers=[container(state=waiting("ContainerCreating"))]),
            events=[
                event(
                    "Pod",
                    "llama-fast-1",
                    "FailedMount",
                    'MountVolume.SetUp failed for volume "key" : secret "tls" not found',
                )
            ],
        ),
        Reason.SECRET_MISSING,
        'secret "tls" not found',
    ),
    (
        "a ConfigMap is missing",
        snapshot(
            pod(
                containers=[container(state=waiting("CreateContainerConfigError", 'configmap "x" not found'))]
            )
        ),
        Reason.CONFIG_MAP_MISSING,
        'configmap "x"',
    ),
    (
        "the container cannot be made",
        snapshot(
            pod(
                containers=[
                    container(state=waiting("CreateContainerConfigError", "container has runAsNonRoot"))
                ]
            )
        ),
        Reason.CONTAINER_CONFIG_INVALID,
        "runAsNonRoot",
    ),
    (
        "the command is not in the image",
        snapshot(pod(containers=[container(state=waiting("RunContainerError", "exec: vllm: not found"))])),
        Reason.CONTAINER_CONFIG_INVALID,
        "vllm: not found",
    ),
    (
        "the storage class does not exist",
        snapshot(
            unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
            events=[
                event(
                    "PersistentVolumeClaim",
                    "llama-fast-weights-1",
                    "ProvisioningFailed",
                    'storageclass.storage.k8s.io "fsx" not found',
                )
            ],
        ),
        Reason.STORAGE_CLASS_MISSING,
        '"fsx" not found',
    ),
    (
        "no storage class is given and the cluster has no default",
        snapshot(
            unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
            events=[
                event(
                    "PersistentVolumeClaim",
                    "c",
                    "FailedBinding",
                    "no persistent volumes available for this claim and no storage class is set",
                )
            ],
        ),
        Reason.STORAGE_CLASS_MISSING,
        "no storage class is set",
    ),
    (
        "the volume's driver fails",
        snapshot(
            unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
            events=[event("PersistentVolumeClaim", "c", "ProvisioningFailed", "rpc error: no capacity")],
        ),
        Reason.VOLUME_PENDING,
        "no capacity",
    ),
    (
        "a volume has failed, and then its class is found missing",
        snapshot(
            unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
            events=[
                event("PersistentVolumeClaim", "c", "ProvisioningFailed", "rpc error: no capacity"),
                event("PersistentVolumeClaim", "d", "ProvisioningFailed", 'storageclass "x" not found'),
            ],
        ),
        Reason.STORAGE_CLASS_MISSING,
        "volume d",
    ),
    (
        "the claim of a pvc:// source does not exist",
        snapshot(unschedulable('persistentvolumeclaim "models" not found')),
        Reason.VOLUME_PENDING,
        '"models" not found',
    ),
    (
        "the volume behind a claim is lost",
        snapshot(unschedulable(""), claims=(VolumeClaimView("b", "Bound"), VolumeClaimView("c", "Lost"))),
        Reason.VOLUME_PENDING,
        "is lost",
    ),
    (
        "a volume cannot be mounted",
        snapshot(
            pod(containers=[container(state=waiting("ContainerCreating"))]),
            events=[event("Pod", "llama-fast-1", "FailedAttachVolume", "Multi-Attach error for volume pv-1")],
        ),
        Reason.VOLUME_PENDING,
        "Multi-Attach",
    ),
    (
        "the engine crashes in a loop",
        snapshot(
            pod(
                containers=[
                    container(
                        restarts=4,
                        state=waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container"),
                        last_state=terminated(1, message="ValueError: max_model_len is too large\n"),
                    )
                ]
            )
        ),
        Reason.ENGINE_CRASHED,
        "exit code 1, 4 restarts; last words: ValueError: max_model_len is too large",
    ),
    (
        "the engine runs again after a crash and is not ready yet",
        snapshot(pod(containers=[container(restarts=2, state=running(), last_state=terminated(1))])),
        Reason.ENGINE_CRASHED,
        "kubectl logs llama-fast-1 -c engine --previous",
    ),
    (
        "the liveness probe kills the engine",
        snapshot(
            pod(containers=[container(restarts=1, state=running(), last_state=terminated(137))]),
            events=[
                event(
                    "Pod",
                    "llama-fast-1",
                    "Killing",
                    "Container engine failed liveness probe, will be restarted",
                )
            ],
        ),
        Reason.ENGINE_CRASHED,
        "failed liveness probe",
    ),
    (
        "the liveness probe kills an engine whose start took some failed startup probes",
        snapshot(
            pod(containers=[container(restarts=1, state=running(), last_state=terminated(137))]),
            events=[
                event("Pod", "llama-fast-1", "Unhealthy", "Startup probe failed: connection refused"),
                event(
                    "Pod",
                    "llama-fast-1",
                    "Killing",
                    "Container engine failed liveness probe, will be restarted",
                ),
            ],
        ),
        Reason.ENGINE_CRASHED,
        "failed liveness probe",
    ),
    (
        "the engine runs out of host memory",
        snapshot(
            pod(
                containers=[
                    container(
                        restarts=1, state=waiting("CrashLoopBackOff"), last_state=terminated(137, "OOMKilled")
                    )
                ]
            )
        ),
        Reason.OUT_OF_MEMORY,
        "hardware.resources.memory",
    ),
    (
        "the engine is not ready within its start-up budget",
        snapshot(
            pod(containers=[container(restarts=1, state=running(), last_state=terminated(137))]),
            events=[
                event(
                    "Pod",
                    "llama-fast-1",
                    "Killing",
                    "Container engine failed startup probe, will be restarted",
                )
            ],
        ),
        Reason.STARTUP_TIMEOUT,
        "rollout.startupTimeout",
    ),
    (
        "the download of the weights fails",
        snapshot(
            pod(
                containers=[container(state=waiting("PodInitializing"))],
                init=[
                    container(
                        "fetch-weights",
                        restarts=3,
                        state=waiting("CrashLoopBackOff"),
                        last_state=terminated(1, message="401 Client Error: gated repository"),
                    )
                ],
            )
        ),
        Reason.DOWNLOAD_FAILED,
        "401 Client Error",
    ),
    (
        "an init container of the user's own fails",
        snapshot(
            pod(
                containers=[container(state=waiting("PodInitializing"))],
                init=[container("prepare", restarts=1, state=terminated(2))],
            )
        ),
        Reason.ENGINE_CRASHED,
        "container prepare",
    ),
    (
        "the node stops answering",
        snapshot(
            pod(
                conditions=[condition("ContainersReady", "True"), condition("Ready", "False")],
                containers=[container(ready=True, state=running())],
            )
        ),
        Reason.NODE_LOST,
        "node-1",
    ),
    (
        "a load balancer's readiness gate is not passed yet",
        snapshot(
            pod(
                conditions=[
                    condition("ContainersReady", "True"),
                    condition("Ready", "False", "ReadinessGatesNotReady"),
                ],
                containers=[container(ready=True, state=running())],
            )
        ),
        Reason.STARTING,
        "0 of 2 replicas are ready",
    ),
    (
        "the node controller marks the pod of a lost node",
        snapshot(pod(deleting=True, status={"reason": "NodeLost"})),
        Reason.NODE_LOST,
        "node-1 does not answer",
    ),
    (
        "the scheduler itself names the missing storage class",
        snapshot(unschedulable('storageclass.storage.k8s.io "fsx" not found')),
        Reason.STORAGE_CLASS_MISSING,
        '"fsx" not found',
    ),
    (
        "the scheduler gives a reason and no words",
        snapshot(
            pod(
                node="",
                phase="Pending",
                containers=[],
                conditions=[condition("PodScheduled", "False", "SchedulingGated")],
            )
        ),
        Reason.UNSCHEDULABLE,
        "SchedulingGated",
    ),
    (
        "many pods wait for the same device",
        snapshot(unschedulable(SCHEDULER, "a"), unschedulable(SCHEDULER, "b")),
        Reason.UNSCHEDULABLE,
        "pod a (2 pods wait)",
    ),
    (
        "pods of a lost node are being evicted",
        snapshot(
            pod(deleting=True, conditions=[condition("DisruptionTarget", "True", "DeletionByTaintManager")])
        ),
        Reason.NODE_LOST,
        "does not answer",
    ),
    (
        "the node throws a pod out",
        snapshot(
            pod(
                phase="Failed",
                containers=[],
                status={"reason": "Evicted", "message": "low on ephemeral-storage"},
            )
        ),
        Reason.EVICTED,
        "ephemeral-storage",
    ),
    (
        "the API server refuses a child",
        snapshot(problems=(Problem(Reason.FORBIDDEN, "Service llama-fast: no (403 Forbidden)"),)),
        Reason.FORBIDDEN,
        "Service llama-fast",
    ),
    (
        "pods are on their way",
        snapshot(pod("a"), pod("b")),
        Reason.STARTING,
        "pod a runs; its engine is not ready",
    ),
    (
        "one pod waits for a node that the scheduler has not looked for yet",
        snapshot(
            pod(node="", phase="Pending", containers=[], conditions=[condition("PodScheduled", "False")])
        ),
        Reason.STARTING,
        "waits for a node",
    ),
]


@pytest.mark.parametrize(
    ("view", "reason", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_tier_that_does_not_serve_says_why(view: Snapshot, reason: Reason, words: str) -> None:
    condition_ = ready(view)
    assert (condition_.status, condition_.reason) == ("False", reason)
    assert words in condition_.message


@pytest.mark.parametrize("view", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_status_computed_again_from_the_same_pods_is_the_same(view: Snapshot) -> None:
    first = status_of(view)
    assert compute_status(view, first, NOW.replace(hour=13)) == first


ALL_PODS = tuple(dict.fromkeys(each for case in CASES for each in case[1].pods))
ALL_EVENTS = tuple(dict.fromkeys(each for case in CASES for each in case[1].events))


@given(
    pods=st.lists(st.sampled_from(ALL_PODS), max_size=5),
    events=st.lists(st.sampled_from(ALL_EVENTS), max_size=3),
    wanted=st.integers(0, 5),
    has_workload=st.booleans(),
    stage=st.sampled_from(Stage),
)
def test_any_mix_of_pods_gives_one_steady_status(
    pods: list[PodView], events: list[EventView], wanted: int, has_workload: bool, stage: Stage
) -> None:
    refusal = Finding(Reason.CONFLICT, "an older tier") if stage is Stage.REFUSED else None
    view = replace(
        snapshot(wanted=wanted, stage=stage, refusal=refusal), pods=tuple(pods), events=tuple(events)
    )
    view = view if has_workload else replace(view, workload=None)
    first = status_of(view)
    again = compute_status(view, first, NOW.replace(hour=20))
    assert again == first
    assert transitions(first, again) == ()
    pair = (get(first, ConditionType.RECONCILING).status, get(first, ConditionType.STALLED).status)
    assert pair != ("True", "True")
    is_ready = get(first, ConditionType.READY).status == "True"
    assert not is_ready or wanted == 0 or first.ready_replicas


@pytest.mark.parametrize("view", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_reconciling_and_stalled_are_never_both_true(view: Snapshot) -> None:
    status = status_of(view)
    pair = {get(status, ConditionType.RECONCILING).status, get(status, ConditionType.STALLED).status}
    assert pair == {"True", "False"}, "a tier that does not serve is either on its way or stuck"


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
