"""Decides where a tier on CPUs runs: the node pool alone, since there is no device to ask for."""

from tierwright.api.tier import TierSpec
from tierwright.hardware.placement import Placement, node_expressions, user_tolerations


def cpu_placement(spec: TierSpec) -> Placement:
    """The placement on CPUs; pool and tolerations reach the pod although it asks for no device."""
    hardware = spec.hardware
    return Placement(
        devices={},
        node_selector=hardware.node_pool.match_labels,
        node_expressions=tuple(node_expressions(hardware)),
        tolerations=tuple(user_tolerations(hardware)),
        env={},
    )
