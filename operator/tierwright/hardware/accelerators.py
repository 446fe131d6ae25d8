"""Lists the accelerators: which file decides the placement for each."""

from collections.abc import Callable, Mapping
from typing import Final

from tierwright.api.hardware import Accelerator
from tierwright.api.tier import TierSpec
from tierwright.hardware.cpu import cpu_placement
from tierwright.hardware.neuron import neuron_placement
from tierwright.hardware.nvidia import nvidia_placement
from tierwright.hardware.placement import Placement
from tierwright.hardware.refusal import unsupported

_PLACEMENTS: Final[Mapping[Accelerator, Callable[[TierSpec], Placement]]] = {
    Accelerator.NVIDIA: nvidia_placement,
    Accelerator.NEURON: neuron_placement,
    Accelerator.CPU: cpu_placement,
}


def placement(spec: TierSpec) -> Placement:
    """Where the tier's pods may run and what they take there.

    Raises:
        RefusedError: the accelerator cannot be used as asked.
    """
    if spec.hardware.hosts > 1:
        raise unsupported(
            "spec.hardware.hosts",
            "replicas that span several hosts are not supported yet; use hosts: 1",
        )
    return _PLACEMENTS[spec.hardware.accelerator](spec)
