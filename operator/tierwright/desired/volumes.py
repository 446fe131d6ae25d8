"""Decides the scratch volumes of a pod: compile cache, temporary files and shared memory."""

from typing import Any, Final

from tierwright.api.tier import InferenceTier, TierSpec
from tierwright.desired.pvc import cache_volume
from tierwright.engines.engine import CACHE_PATH

COMPILE_VOLUME: Final = "compile"
_TMP_VOLUME: Final = "tmp"
_SHM_VOLUME: Final = "shm"


def scratch_volumes(tier: InferenceTier) -> list[dict[str, Any]]:
    """The volumes that the engine writes to; everything else of its file system is read-only."""
    return [
        cache_volume(tier, COMPILE_VOLUME, tier.spec.cache.compile),
        {"name": _TMP_VOLUME, "emptyDir": {}},
        {
            "name": _SHM_VOLUME,
            "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory(tier.spec)},
        },
    ]


def server_scratch_mounts() -> list[dict[str, Any]]:
    """Where the server writes."""
    return [*fetch_scratch_mounts(), {"name": _SHM_VOLUME, "mountPath": "/dev/shm"}]  # noqa: S108 - the pod's own


def fetch_scratch_mounts() -> list[dict[str, Any]]:
    """Where the init container writes beside the weights volume."""
    return [
        {"name": COMPILE_VOLUME, "mountPath": CACHE_PATH},
        {"name": _TMP_VOLUME, "mountPath": "/tmp"},  # noqa: S108 - the pod's own
    ]


def shared_memory(spec: TierSpec) -> str:
    """Size of /dev/shm, through which the ranks of an engine talk: 2 GiB, and 1 GiB for each rank after the first."""
    if spec.hardware.resources.shared_memory is not None:
        return spec.hardware.resources.shared_memory
    ranks = spec.engine.tensor_parallel * spec.engine.pipeline_parallel * spec.engine.data_parallel
    return f"{1 + ranks}Gi"
