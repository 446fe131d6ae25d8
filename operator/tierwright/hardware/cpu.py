"""Decides where a tier on CPUs runs: the node pool alone, since there is no device to ask for."""

from tierwright.api.tier import TierSpec
from tierwright.hardware.placement import Placement, node_expressions, user_tolerations
from tierwright.hardware.refusal import invalid


def cpu_placement(spec: TierSpec) -> Placement:
    """The placement on CPUs.

    Raises:
        RefusedError: devices are asked for.
    """
    hardware = spec.hardware
    if hardware.count is not None:
        raise invalid("spec.hardware.count", "there are no devices to count on cpu; remove it")
    if hardware.resource_name is not None:
        raise invalid("spec.hardware.resourceName", "there are no devices to ask for on cpu; remove it")
    return Placement(
        devices={},
        node_selector=hardware.node_pool.match_labels,
        node_expressions=tuple(node_expressions(hardware)),
        tolerations=tuple(user_tolerations(hardware)),
        env={},
    )
