"""Every kind of trouble that pods may have, as (what it is, snapshot, reason of Ready, words of its message)."""

from tests.unit.control.pods import (
    OFF_POOL,
    PULL,
    SCHEDULER,
    condition,
    container,
    deployment,
    event,
    pod,
    running,
    snapshot,
    terminated,
    unschedulable,
    waiting,
)
from tierwright.api.conditions import Reason
from tierwright.observe.pods import VolumeClaimView
from tierwright.observe.snapshot import Problem, Snapshot

TAINTED = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector."
QUOTA = (
    'pods "llama-fast-7d9f-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1,'
    " used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2"
)
NO_SECRET = 'secret "hf" not found'
NO_KEY = "couldn't find key token in Secret serving/hf"


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
