"""Every way in which the worker fails to start or dies, each with its own exit status (table in worker/README.md)."""


class WorkerError(Exception):
    """A failure with one clear message: what is wrong, where, and what to do. `exit_status` is the process's."""

    exit_status = 70


class UnsupportedModelError(WorkerError):
    """The model is of a kind that this worker cannot compute."""

    exit_status = 65


class CorruptModelError(WorkerError):
    """A file of the model is damaged, cut short, or contradicts another one."""

    exit_status = 66


class ModelNotFoundError(WorkerError):
    """The model's source names nothing that can be read."""

    exit_status = 67


class SettingsError(WorkerError):
    """The settings contradict each other or the model."""

    exit_status = 64


class OutOfMemoryError(WorkerError):
    """Weights, cache or executables do not fit into the memory that there is."""

    exit_status = 71


class CacheVolumeError(WorkerError):
    """A cache volume is full, read-only or unreadable where it must not be."""

    exit_status = 73


class SourceUnreachableError(WorkerError):
    """A model's source does not answer, or breaks off again and again; a later try may do better."""

    exit_status = 75


class SourceAccessError(WorkerError):
    """A model's source refuses us: no token, a wrong one, or one without the right to this model."""

    exit_status = 77


class DeviceError(WorkerError):
    """The device failed while it was running; the engine is dead."""

    exit_status = 74
