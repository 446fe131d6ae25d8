"""Decides where a tier on NVIDIA GPUs runs: device resource, node pool, taints, and no time-sliced nodes."""

from typing import Any, Final

from tierwright.api.tier import TierSpec
from tierwright.hardware.placement import (
    Placement,
    device_count,
    node_expressions,
    tolerate_taint,
    user_tolerations,
)
from tierwright.hardware.refusal import unsupported

GPU_RESOURCE: Final = "nvidia.com/gpu"
GPU_TAINT: Final = "nvidia.com/gpu"
_MIG_PREFIX: Final = "nvidia.com/mig-"
_SHARED_SUFFIX: Final = ".shared"
# An engine takes most of a GPU's memory; neighbours on a shared GPU would make it fail at random. Nodes
# without the label (no GPU feature discovery) pass: NotIn holds for them.
_WHOLE_GPUS_ONLY: Final = {
    "key": "nvidia.com/gpu.sharing-strategy",
    "operator": "NotIn",
    "values": ["time-slicing", "mps"],
}


def nvidia_placement(spec: TierSpec) -> Placement:
    """The placement on NVIDIA GPUs.

    Raises:
        RefusedError: no count, MIG slices, or GPUs shared in time.
    """
    hardware = spec.hardware
    resource = hardware.resource_name or GPU_RESOURCE
    if resource.startswith(_MIG_PREFIX):
        raise unsupported(
            "spec.hardware.resourceName",
            f"MIG slices ({resource}) are not supported yet; ask for whole GPUs: {GPU_RESOURCE}",
        )
    if resource.endswith(_SHARED_SUFFIX):
        raise unsupported(
            "spec.hardware.resourceName",
            f"GPUs shared in time ({resource}) are not supported: an engine takes most of a GPU's memory; "
            f"ask for whole GPUs: {GPU_RESOURCE}",
        )
    expressions: list[dict[str, Any]] = [*node_expressions(hardware), dict(_WHOLE_GPUS_ONLY)]
    return Placement(
        devices={resource: device_count(hardware)},
        node_selector=hardware.node_pool.match_labels,
        node_expressions=tuple(expressions),
        tolerations=(tolerate_taint(GPU_TAINT), *user_tolerations(hardware)),
        env={},
    )
