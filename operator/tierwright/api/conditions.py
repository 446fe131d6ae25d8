"""All condition types and reasons, each with what a person must do; the runbook has one page per reason."""

from enum import StrEnum


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SCHEDULED = "Scheduled"
    OBJECTIVES_MET = "ObjectivesMet"
    SCALING_ACTIVE = "ScalingActive"
    ROUTED = "Routed"


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
    # ScalingActive
    START_VALUE = "StartValue"
    MANUAL = "Manual"
    # Routed
    NO_GATEWAY = "NoGateway"
