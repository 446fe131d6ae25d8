"""Decides what every accelerator has in common: the node pool's conditions, the tolerations, the device count per pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierwright.api.hardware import HardwareSpec, LabelSelectorRequirement, Toleration
from tierwright.hardware.refusal import invalid


@dataclass(frozen=True)
class Placement:
    """Where the pods of a tier may run and what they take there."""

    devices: Mapping[str, int]
    """Extended resource → devices per pod; requests and limits alike. Empty on CPU."""
    node_selector: Mapping[str, str]
    """Labels that the node must have."""
    node_expressions: tuple[dict[str, Any], ...]
    """More conditions on the node's labels, in the form of a NodeSelectorRequirement; all must hold."""
    tolerations: tuple[dict[str, Any], ...]
    """Taints that the pods tolerate."""
    env: Mapping[str, str]
    """Environment that the accelerator's runtime needs."""


def device_count(hardware: HardwareSpec) -> int:
    """Devices of one pod: a pod fills its share of one host, never the sum over hosts.

    Raises:
        RefusedError: the accelerator has devices and no count is given.
    """
    if hardware.count is None:
        raise invalid("spec.hardware.count", f"set the number of {hardware.accelerator} devices per host")
    return hardware.count


def tolerate_taint(key: str) -> dict[str, Any]:
    """Tolerates the taint whatever its value and effect, as clouds and charts choose different ones."""
    return {"key": key, "operator": "Exists"}


def node_expressions(hardware: HardwareSpec) -> list[dict[str, Any]]:
    """The node pool's expressions as NodeSelectorRequirements."""
    return [_requirement(expression) for expression in hardware.node_pool.match_expressions]


def user_tolerations(hardware: HardwareSpec) -> list[dict[str, Any]]:
    """The user's tolerations, without the empty fields that the API server would drop."""
    return [_toleration(toleration) for toleration in hardware.tolerations]


def _requirement(expression: LabelSelectorRequirement) -> dict[str, Any]:
    requirement: dict[str, Any] = {"key": expression.key, "operator": expression.operator}
    if expression.values:
        requirement["values"] = list(expression.values)
    return requirement


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return {name: value for name, value in toleration.to_wire().items() if value != ""}
