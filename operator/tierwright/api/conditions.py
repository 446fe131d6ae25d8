"""All condition types and reasons, each with what a person must do; the runbook has one page per reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SCHEDULED = "Scheduled"
    OBJECTIVES_MET = "ObjectivesMet"
    SCALING_ACTIVE = "ScalingActive"
    ROUTED = "Routed"
    COMPILE_CACHE_READY = "CompileCacheReady"


class Reason(StrEnum):
    """Why a condition has its status."""

    # Ready
    SERVING = "Serving"
    SCALED_TO_ZERO = "ScaledToZero"
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    PAUSED = "Paused"
    TOO_FEW_READY = "TooFewReady"
    # Reconciling, Stalled
    SETTLED = "Settled"
    APPLYING = "Applying"
    ROLLING_OUT = "RollingOut"
    PROGRESSING = "Progressing"
    DELETING = "Deleting"
    # causes that a person must act on
    INVALID_SPEC = "InvalidSpec"
    UNSUPPORTED = "Unsupported"
    CONFLICT = "Conflict"
    UNSCHEDULABLE = "Unschedulable"
    NODE_POOL_EMPTY = "NodePoolEmpty"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FORBIDDEN = "Forbidden"
    API_UNAVAILABLE = "APIUnavailable"
    KIND_MISSING = "KindMissing"
    REJECTED = "Rejected"
    DRIFT_NOT_CORRECTED = "DriftNotCorrected"
    FIELDS_ADDED = "FieldsAdded"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - the name of a reason
    CONFIG_MAP_MISSING = "ConfigMapMissing"
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    VOLUME_PENDING = "VolumePending"
    ENGINE_CRASHED = "EngineCrashed"
    OUT_OF_MEMORY = "OutOfMemory"
    STARTUP_TIMEOUT = "StartupTimeout"
    DOWNLOAD_FAILED = "DownloadFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    NODE_LOST = "NodeLost"
    EVICTED = "Evicted"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    # Scheduled
    ALL_PLACED = "AllPlaced"
    NO_PODS = "NoPods"
    WAITING = "Waiting"
    # ObjectivesMet
    NO_METRICS = "NoMetrics"
    OBJECTIVES_KEPT = "ObjectivesKept"
    OBJECTIVES_MISSED = "ObjectivesMissed"
    # ScalingActive
    START_VALUE = "StartValue"
    MANUAL = "Manual"
    RECOMMENDING = "Recommending"
    STEADY = "Steady"
    DEMAND_GREW = "DemandGrew"
    DEMAND_FELL = "DemandFell"
    FORECAST_HOLDS = "ForecastHolds"
    WINDOW_NOT_FULL = "WindowNotFull"
    LEARNED_STATE_UNREADABLE = "LearnedStateUnreadable"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    PARTIAL_METRICS = "PartialMetrics"
    STARTS_FAIL = "StartsFail"
    POOL_FULL = "PoolFull"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    STEP_LIMITED = "StepLimited"
    IDLE = "Idle"
    WOKEN = "Woken"
    # Routed
    NO_GATEWAY = "NoGateway"
    # CompileCacheReady
    COMPILED = "Compiled"
    COMPILING = "Compiling"
    COMPILES_AT_START = "CompilesAtStart"
    COMPILE_FAILED = "CompileFailed"
    COMPILE_TIMEOUT = "CompileTimeout"


@dataclass(frozen=True)
class ReasonInfo:
    """What a reason tells a person."""

    meaning: str
    """One sentence: what is the case."""
    remedy: str
    """What to do; for a tier's normal life, that nothing needs to be done."""


CONDITIONS: Final[Mapping[ConditionType, str]] = {
    ConditionType.READY: "Enough pods are ready: at least one, and at least minReplicas less maxUnavailable.",
    ConditionType.RECONCILING: "The operator is still on its way to what the spec asks for.",
    ConditionType.STALLED: "The operator cannot get any further until somebody acts.",
    ConditionType.SCHEDULED: "Every pod of the tier has a node.",
    ConditionType.OBJECTIVES_MET: "The tier keeps its latency objectives for the promised share of requests.",
    ConditionType.SCALING_ACTIVE: "The operator sets the number of replicas from the load.",
    ConditionType.ROUTED: "A gateway sends requests to the tier by their speed.",
    ConditionType.COMPILE_CACHE_READY: (
        "The programs of the present spec lie on the tier's shared compile volume. Only tiers of engine jax with "
        "`cache.compile.sharing: Shared` have it."
    ),
}
"""What each condition states when it is True."""

REASONS: Final[Mapping[Reason, ReasonInfo]] = {
    Reason.SERVING: ReasonInfo("Enough pods are ready to serve.", "Nothing."),
    Reason.SCALED_TO_ZERO: ReasonInfo(
        "No replicas are asked for, and none run.",
        "Nothing, or `kubectl scale itier NAME --replicas=1`.",
    ),
    Reason.SUSPENDED: ReasonInfo(
        "spec.suspend is true: no replicas run, the other children are kept.",
        "Set `spec.suspend: false` when the tier shall serve again.",
    ),
    Reason.STARTING: ReasonInfo(
        "Pods are on their way and none is ready yet.",
        "Wait. `status.startup` shows where the time of the last start went; weights that are fetched anew at each "
        "start call for `spec.cache.weights`.",
    ),
    Reason.PAUSED: ReasonInfo(
        "The annotation tierwright.dev/paused keeps the operator's hands off the tier.",
        "Remove it when you are done: `kubectl annotate itier NAME tierwright.dev/paused-`.",
    ),
    Reason.TOO_FEW_READY: ReasonInfo(
        "Some pods are ready, but fewer than the tier needs.",
        "See the message for what the others wait for, and `kubectl get pods -l tierwright.dev/tier=NAME`.",
    ),
    Reason.SETTLED: ReasonInfo("Everything is as the spec asks for.", "Nothing."),
    Reason.APPLYING: ReasonInfo(
        "The tier's children are being created or changed.",
        "Wait. When the message names an object that has to go first, see what holds that object: its finalizers, "
        "or a pod that still uses a claim.",
    ),
    Reason.ROLLING_OUT: ReasonInfo(
        "Pods of an earlier spec are being replaced by those of the present one.",
        "Wait. With maxSurge 0 a pod goes before its successor starts; `spec.rollout` decides the pace.",
    ),
    Reason.PROGRESSING: ReasonInfo("Some replicas are not ready yet.", "Wait."),
    Reason.DELETING: ReasonInfo(
        "The tier is being deleted, and its children with it; retained volumes stay.",
        "Wait. A pod may take `spec.rollout.drainTimeout` to finish its requests.",
    ),
    Reason.INVALID_SPEC: ReasonInfo(
        "The spec cannot be carried out: values contradict each other, or today's rules no longer accept a tier that "
        "was stored earlier.",
        "The message names each field and the fix. `tierwright render -f tier.yaml` shows the same offline. Running "
        "pods stay as they are until the spec is mended.",
    ),
    Reason.UNSUPPORTED: ReasonInfo(
        "The spec asks for something that this release does not build.",
        "The message says what to use instead; or upgrade to a release that has it.",
    ),
    Reason.CONFLICT: ReasonInfo(
        "Something else holds what the tier needs: an object of a child's name that is not the tier's, a tier of the "
        "same model and speed that came first, or another scaler on the workload.",
        "The message names the other one. Delete or rename it, or give this tier another name or speed. An HPA or KEDA "
        "object has to target the InferenceTier, not its Deployment. Nothing of the other's is touched. When the "
        "Deployment `is held back`, a volume claim or a ServiceAccount of the name that its pods would use is somebody "
        "else's: no pod is made or changed until that is gone or the tier uses another (`spec.pod.serviceAccount.name`, "
        "or a tier of another name for the claim), so that pods never write to another's volume or act under another's "
        "identity.",
    ),
    Reason.UNSCHEDULABLE: ReasonInfo(
        "The scheduler finds no node for a pod; the message has its own words.",
        "Free or add devices in the pool, ask for fewer (`hardware.count`, `hardware.resources`), tolerate the nodes' "
        "taints (`hardware.tolerations`), or lower the replicas.",
    ),
    Reason.NODE_POOL_EMPTY: ReasonInfo(
        "No node has the labels that the tier is pinned to, or those that do have a taint that it does not tolerate.",
        "Compare `spec.hardware.nodePool` with `kubectl get nodes --show-labels`; where an autoscaler makes nodes on "
        "demand, see why it does not.",
    ),
    Reason.QUOTA_EXCEEDED: ReasonInfo(
        "A ResourceQuota of the namespace refuses pods or volumes.",
        "`kubectl describe quota`; raise it, or lower the replicas or what each asks for.",
    ),
    Reason.FORBIDDEN: ReasonInfo(
        "The API server denies the operator or the workload something.",
        "The message names verb and object. Compare the operator's role with the one that the chart ships; an admission "
        "policy may also be at work. It is tried again at each resync.",
    ),
    Reason.API_UNAVAILABLE: ReasonInfo(
        "The API server does not answer or asks to wait.",
        "Wait: the operator tries again with growing pauses. If it lasts, look at the control plane.",
    ),
    Reason.KIND_MISSING: ReasonInfo(
        "The cluster does not know a kind that the tier needs.",
        "Install what defines the kind that the message names; it is looked for again at each resync.",
    ),
    Reason.REJECTED: ReasonInfo(
        "The API server refuses a child as it is.",
        "The message has the server's words. `spec.podTemplate` and an admission policy are the usual causes.",
    ),
    Reason.DRIFT_NOT_CORRECTED: ReasonInfo(
        "Something changes a child back each time after the operator has set it.",
        "`kubectl get KIND NAME -o yaml --show-managed-fields` tells who; stop that controller or webhook, or make the "
        "change through `spec.podTemplate`.",
    ),
    Reason.FIELDS_ADDED: ReasonInfo(
        "Somebody set fields of a child that the tier does not set. They stay, since other controllers may have good "
        "reasons; an Event and `status.warnings` name the field and the field manager.",
        "Where it is not meant, remove it: `kubectl edit KIND NAME`. Where it is, write it into `spec.podTemplate`, so "
        "that it lasts when the child is made anew.",
    ),
    Reason.IMAGE_PULL_FAILED: ReasonInfo(
        "A node cannot pull a container's image.",
        "Check the name in `spec.engine.image`, `spec.pod.imagePullSecrets`, and whether the node reaches the registry. "
        "The JAX worker's image is not published: build and push it, and install with "
        "`--set worker.image.repository=registry.example.com/you/worker`.",
    ),
    Reason.SECRET_MISSING: ReasonInfo(
        "A Secret that the spec refers to, or its key, is not in the namespace.",
        "Create it; the pods start by themselves.",
    ),
    Reason.CONFIG_MAP_MISSING: ReasonInfo(
        "A ConfigMap that the spec refers to, or its key, is not in the namespace.",
        "Create it; the pods start by themselves.",
    ),
    Reason.STORAGE_CLASS_MISSING: ReasonInfo(
        "A volume asks for a storage class that does not exist, or the cluster has no default class.",
        "`kubectl get storageclass`; create the class or name another in `spec.cache`.",
    ),
    Reason.VOLUME_PENDING: ReasonInfo(
        "A volume is not there yet or cannot be mounted.",
        "`kubectl describe pvc` has the provisioner's words: size, zone, access mode, or a volume still attached to "
        "another node.",
    ),
    Reason.ENGINE_CRASHED: ReasonInfo(
        "The engine's container ends with an error again and again.",
        "The message has its last words; `kubectl logs POD --previous` has all. The usual causes are `engine.extraArgs`, "
        "an engine version that does not know an argument, and too little memory on the device.",
    ),
    Reason.OUT_OF_MEMORY: ReasonInfo(
        "A container was killed because it used more host memory than its limit.",
        "Raise `hardware.resources.memory`; sharedMemory and hostOffload count into it.",
    ),
    Reason.STARTUP_TIMEOUT: ReasonInfo(
        "A pod was not ready within rollout.startupTimeout and was restarted.",
        "Raise `spec.rollout.startupTimeout`, or shorten the start by `spec.cache`; `status.startup` shows its phases.",
    ),
    Reason.DOWNLOAD_FAILED: ReasonInfo(
        "The weights could not be fetched.",
        "The message has the downloader's words: check `model.source`, `model.tokenSecretRef` and the token's access, "
        "the size of `cache.weights`, and the way out of the cluster.",
    ),
    Reason.CONTAINER_CONFIG_INVALID: ReasonInfo(
        "A node cannot make the container as the pod describes it.",
        "The message has the node's words; `spec.podTemplate` and `engine.env` are the usual causes.",
    ),
    Reason.NODE_LOST: ReasonInfo(
        "The node of a pod does not answer.",
        "Repair or delete the node; Kubernetes then starts the pod elsewhere.",
    ),
    Reason.EVICTED: ReasonInfo(
        "A node has put a pod out because it ran short of memory or disk.",
        "Set `hardware.resources` to what the engine needs, above all memory and ephemeralStorage.",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: ReasonInfo(
        "A rollout has made no progress within its deadline, and no cause could be read from the pods.",
        "`kubectl describe deployment` and `kubectl get pods -l tierwright.dev/tier=NAME`; the rollout goes on when "
        "the cause is gone.",
    ),
    Reason.ALL_PLACED: ReasonInfo("Every pod has a node.", "Nothing."),
    Reason.NO_PODS: ReasonInfo("There are no pods to place.", "Nothing."),
    Reason.WAITING: ReasonInfo("The scheduler has not looked at every pod yet.", "Wait some seconds."),
    Reason.NO_METRICS: ReasonInfo(
        "No objectives are set, or no latency has been measured yet.",
        "Set `spec.scaling.objectives` to have them watched; a share is told from 20 requests within an hour.",
    ),
    Reason.OBJECTIVES_KEPT: ReasonInfo(
        "Of the last hour's requests at least the promised share met every objective.", "Nothing."
    ),
    Reason.OBJECTIVES_MISSED: ReasonInfo(
        "Of the last hour's requests too few met every objective.",
        "See ScalingActive for what the autoscaler does about it. At `AtMaximum` raise `scaling.maxReplicas`, at `PoolFull` "
        "add devices. Where one request alone misses the objective, no number of replicas helps: the metric "
        "`tierwright_decision_unavoidable_miss_ratio` tells that share; loosen the objective or use a faster engine.",
    ),
    Reason.START_VALUE: ReasonInfo(
        "Mode Auto keeps the replicas that the tier has or starts with, since its pods were not measured yet.",
        "Wait some seconds; the first figures need two readings of a ready pod.",
    ),
    Reason.MANUAL: ReasonInfo(
        "spec.replicas decides, written by a person, an HPA or KEDA.",
        "Nothing; or set `scaling.mode: Auto` to let the operator decide.",
    ),
    Reason.RECOMMENDING: ReasonInfo(
        "spec.replicas decides; the autoscaler publishes what it would ask for in `status.recommendedReplicas`.",
        "Nothing; or set `scaling.mode: Auto` to let the operator act on it.",
    ),
    Reason.STEADY: ReasonInfo("The replicas fit what arrives and what is foretold.", "Nothing."),
    Reason.DEMAND_GREW: ReasonInfo(
        "More is foretold for the time at which a new replica is ready than the present replicas can take.",
        "Nothing.",
    ),
    Reason.DEMAND_FELL: ReasonInfo("Fewer replicas are enough for long, so one goes.", "Nothing."),
    Reason.FORECAST_HOLDS: ReasonInfo(
        "Fewer replicas would do now, but not for what is foretold or was needed a short while ago.",
        "Nothing.",
    ),
    Reason.WINDOW_NOT_FULL: ReasonInfo(
        "Fewer replicas would do, but the autoscaler has watched for less than `scaling.scaleDown.stabilization`.",
        "Nothing; it began anew after a restart of the operator or a gap in the metrics.",
    ),
    Reason.LEARNED_STATE_UNREADABLE: ReasonInfo(
        "The ConfigMap NAME-autoscaler, in which the autoscaler keeps what it has learned, may be there and cannot be read. "
        "The tier still grows with its load; no replica goes, and nothing is overwritten.",
        "The message has the API server's words. At 403 give the operator's role its right to `get` ConfigMaps back (the "
        "chart's role has it). It is asked for again each minute. Deleting the ConfigMap begins anew.",
    ),
    Reason.METRICS_UNAVAILABLE: ReasonInfo(
        "Too few ready pods tell how much they have to do, so the replicas stay as they are.",
        "The message names the pods and what is wrong. The operator must reach port 8000 of the pods (NetworkPolicies), "
        "and `/metrics` must have vLLM's names; `engine.extraArgs` may have switched statistics off.",
    ),
    Reason.PARTIAL_METRICS: ReasonInfo(
        "Some ready pods do not tell how much they have to do, so no replica goes.",
        "The message names them and what is wrong, as for MetricsUnavailable.",
    ),
    Reason.STARTS_FAIL: ReasonInfo(
        "Replicas take far longer to start than others did and are counted on no longer; further ones are asked for.",
        "See why they do not start: `kubectl get pods -l tierwright.dev/tier=NAME`, and condition Ready.",
    ),
    Reason.POOL_FULL: ReasonInfo(
        "More replicas are called for than the node pool has room for.",
        "Add nodes to the pool or free devices, lower the load, or give the tier a higher `scaling.priority` than the "
        "tiers that it shares the pool with.",
    ),
    Reason.AT_MAXIMUM: ReasonInfo(
        "More replicas are called for than scaling.maxReplicas allows.",
        "Raise `scaling.maxReplicas` if you are ready to pay for more; until then objectives may be missed.",
    ),
    Reason.AT_MINIMUM: ReasonInfo("scaling.minReplicas is enough.", "Nothing."),
    Reason.STEP_LIMITED: ReasonInfo(
        "The replicas are on their way to another number, one step at a time.", "Nothing."
    ),
    Reason.IDLE: ReasonInfo(
        "No request came for as long as a smaller number must be enough, and minReplicas is 0: no replica is kept.",
        "Nothing; or set `scaling.minReplicas: 1` where the first request must not wait for a start.",
    ),
    Reason.WOKEN: ReasonInfo(
        "A tier without replicas was asked for: by a request that waits, or by the annotation `tierwright.dev/wake`.",
        "Wait for the start.",
    ),
    Reason.NO_GATEWAY: ReasonInfo(
        "No gateway routes requests to the tier by their speed.",
        "Send requests to the address in `status.endpoint`.",
    ),
    Reason.COMPILED: ReasonInfo("The programs are on the compile volume; a pod loads them.", "Nothing."),
    Reason.COMPILING: ReasonInfo(
        "A Job fills the compile volume; the pods of this spec start once it ends, those of an earlier one serve on.",
        "Wait. The message says what holds the Job up, if anything does. It ends for good when its deadline is over, "
        "and the pods then compile by themselves; the deadline stands still while somebody suspends the Job.",
    ),
    Reason.COMPILES_AT_START: ReasonInfo(
        "No Job compiles, because the tier's pods hold the devices or the volume that it would need, or the tier is "
        "suspended; the first pod of this spec compiles while it starts.",
        "Nothing. A start takes longer once: `rollout.startupTimeout` has to hold a compilation.",
    ),
    Reason.COMPILE_FAILED: ReasonInfo(
        "The Job that fills the compile volume has failed in all its tries, or the API server refuses it; the pods "
        "compile by themselves.",
        "The message has the last words of its last try; `kubectl logs job/NAME` has all for ten minutes. An exit "
        "status from 64 to 67 means the settings or the model and is not tried again; others may be the compiler's. "
        "A pod that becomes ready has compiled, and ends this.",
    ),
    Reason.COMPILE_TIMEOUT: ReasonInfo(
        "The Job that fills the compile volume did not end within its deadline; the pods compile by themselves.",
        "Raise `rollout.startupTimeout`, from which the deadline follows, use fewer buckets in `engine.jax`, or give "
        "the compiler more of `hardware.resources`.",
    ),
}
"""What each reason means and what to do; the runbook is made from it."""
