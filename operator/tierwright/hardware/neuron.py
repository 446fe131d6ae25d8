"""Decides where a tier on Inferentia2 or Trainium runs: devices or cores, legal core groups, node pool, taints."""

from dataclasses import dataclass
from typing import Final

from tierwright.api.hardware import HardwareSpec
from tierwright.api.tier import TierSpec
from tierwright.hardware.placement import Placement, node_expressions, tolerate_taint, user_tolerations
from tierwright.hardware.refusal import invalid, unsupported

DEVICE_RESOURCE: Final = "aws.amazon.com/neuron"
CORE_RESOURCE: Final = "aws.amazon.com/neuroncore"
NEURON_TAINT: Final = "aws.amazon.com/neuron"
CORES_PER_DEVICE: Final = 2
"""NeuronCores of one Inferentia2 or first-generation Trainium chip."""
LEGAL_CORE_GROUPS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 64)
"""Sizes of tensor-parallel groups for which the chips are connected to each other."""
_VISIBLE_CORES: Final = "NEURON_RT_VISIBLE_CORES"


@dataclass(frozen=True)
class NeuronShare:
    """What one pod takes of a Neuron host."""

    resource: str
    count: int
    cores: int


def neuron_share(hardware: HardwareSpec) -> NeuronShare:
    """Devices and NeuronCores of one pod.

    Raises:
        RefusedError: no count, or a resource that the device plugin does not offer.
    """
    resource = hardware.resource_name or DEVICE_RESOURCE
    if hardware.count is None:
        raise invalid("spec.hardware.count", f"set the number of {resource} per host")
    if resource == DEVICE_RESOURCE:
        return NeuronShare(resource, hardware.count, hardware.count * CORES_PER_DEVICE)
    if resource == CORE_RESOURCE:
        return NeuronShare(resource, hardware.count, hardware.count)
    raise unsupported(
        "spec.hardware.resourceName",
        f"the Neuron device plugin offers {DEVICE_RESOURCE} (chips) and {CORE_RESOURCE}, not {resource}",
    )


def neuron_placement(spec: TierSpec) -> Placement:
    """The placement on Neuron devices.

    Raises:
        RefusedError: no count, an unknown resource, a core group that the chips cannot form, or a variable
            that belongs to the device plugin.
    """
    hardware = spec.hardware
    share = neuron_share(hardware)
    if spec.engine.tensor_parallel not in LEGAL_CORE_GROUPS:
        legal = ", ".join(str(size) for size in LEGAL_CORE_GROUPS)
        raise invalid(
            "spec.engine.tensorParallel",
            f"{spec.engine.tensor_parallel} NeuronCores do not form a group; use one of {legal}",
        )
    for index, variable in enumerate(spec.engine.env):
        if variable.name == _VISIBLE_CORES:
            raise invalid(
                f"spec.engine.env[{index}].name",
                f"{_VISIBLE_CORES} is set by the device plugin to the cores that the pod got; remove it",
            )
    return Placement(
        devices={share.resource: share.count},
        node_selector=hardware.node_pool.match_labels,
        node_expressions=tuple(node_expressions(hardware)),
        tolerations=(tolerate_taint(NEURON_TAINT), *user_tolerations(hardware)),
        env={"NEURON_RT_NUM_CORES": str(share.cores)},
    )
