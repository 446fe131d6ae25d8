"""Reads out of live nodes what a pool's room is computed from: labels, taints, what pods may take, whether pods may come."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from tierwright.api.scalars import quantity_value
from tierwright.kube.resources import Object

_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Those that keep pods out; a preference is none."""
    takes_pods: bool
    """Whether it is ready and not cordoned."""
    allocatable: Mapping[str, Decimal]
    """Resource → what pods may take of it, in its base unit (cores, bytes, devices)."""


def node_view(node: Object) -> NodeView:
    """The parts of a node that matter here; a quantity that cannot be read is none."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    return NodeView(
        name=str(metadata["name"]),
        labels=dict(metadata.get("labels") or {}),
        taints=tuple(
            Taint(str(each.get("key") or ""), str(each.get("value") or ""), str(each["effect"]))
            for each in spec.get("taints") or ()
            if each.get("effect") in _KEEPS_OUT
        ),
        takes_pods=ready and not spec.get("unschedulable"),
        allocatable=quantities(status.get("allocatable") or {}),
    )


def requests_of(pod: Object) -> dict[str, Decimal]:
    """What a pod takes of its node: the sum over its containers. Init containers end before these take anything more."""
    total: dict[str, Decimal] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in quantities(
            {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        ).items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def quantities(amounts: Mapping[str, Any]) -> dict[str, Decimal]:
    """Quantities as numbers; those that cannot be read are left out."""
    found = {}
    for name, text in amounts.items():
        try:
            found[name] = quantity_value(str(text))
        except ValueError:
            continue
    return found
