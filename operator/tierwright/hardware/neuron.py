"""Decides where a tier on Inferentia2 or Trainium runs: chips or cores, node pool, taints."""

from typing import Final

from tierwright.api.rules.hardware import CORES_PER_NEURON_DEVICE, NEURON_DEVICE
from tierwright.api.tier import TierSpec
from tierwright.hardware.placement import (
    Placement,
    device_count,
    node_expressions,
    tolerate_taint,
    user_tolerations,
)

NEURON_TAINT: Final = "aws.amazon.com/neuron"


def neuron_placement(spec: TierSpec) -> Placement:
    """The placement on Neuron chips, or on single NeuronCores.

    The device plugin tells the pod which cores are its own; the runtime is told how many, so that it stops at
    once instead of serving from fewer.

    Raises:
        RefusedError: no count.
    """
    hardware = spec.hardware
    resource = hardware.resource_name or NEURON_DEVICE
    count = device_count(hardware)
    cores = count * CORES_PER_NEURON_DEVICE if resource == NEURON_DEVICE else count
    return Placement(
        devices={resource: count},
        node_selector=hardware.node_pool.match_labels,
        node_expressions=tuple(node_expressions(hardware)),
        tolerations=(tolerate_taint(NEURON_TAINT), *user_tolerations(hardware)),
        env={"NEURON_RT_NUM_CORES": str(cores)},
    )
