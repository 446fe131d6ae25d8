"""Computes from the nodes themselves how many replicas of a tier they hold, where the operator may read nodes.

Only tiers' pods are known, so what foreign pods take of a node is not: the result is the most that may fit, and pods that
wait for a node correct it. It is meant for pools of a fixed size: a pool that grows on demand looks full until a pod waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from tierwright.api.tier import InferenceTier
from tierwright.hardware.accelerators import placement
from tierwright.hardware.placement import Placement
from tierwright.hardware.refusal import RefusedError
from tierwright.kube.resources import Object
from tierwright.observe.nodes import NodeView, Taint, quantities, requests_of
from tierwright.observe.store import TierKey


class NodeRoom:
    """All nodes and what tiers' pods take of them, at one moment; a question costs as much as its pool is large."""

    def __init__(self, nodes: Sequence[NodeView], pods: Mapping[TierKey, Iterable[Object]]) -> None:
        """`pods` are those of all tiers, by tier."""
        self._nodes = nodes
        self._taken_by = {key: _taken(own) for key, own in pods.items()}
        self._taken = _summed(self._taken_by.values())
        self._admitted: dict[str, tuple[NodeView, ...]] = {}

    def replicas(self, tier: InferenceTier, key: TierKey) -> int | None:
        """The most replicas of the tier that its pool's nodes hold at once, beside the pods of other tiers.

        Its own pods count as room as far as they were counted as taken, not those that have come since: else each of these
        would look like a place that is free. None where the tier cannot be placed at all, or asks for nothing that could
        run out.
        """
        where = _placement(tier)
        if where is None:
            return None
        host = tier.spec.hardware.resources
        needs = {
            **quantities({"cpu": host.cpu, "memory": host.memory}),
            **{name: Decimal(count) for name, count in where.devices.items()},
        }
        needs = {name: amount for name, amount in needs.items() if amount > 0}
        if not needs:
            return None
        gives = self._taken_by.get(key, {})
        return sum(
            _fits(needs, node.allocatable, self._taken.get(node.name, {}), gives.get(node.name, {}))
            for node in self._of(where)
        )

    def devices(self, tier: InferenceTier) -> dict[str, int]:
        """Node → devices of the tier's kind, for the nodes of its pool; empty where it cannot be placed or takes none."""
        where = _placement(tier)
        if where is None:
            return {}
        return {
            node.name: int(node.allocatable.get(device, 0))
            for node in self._of(where)
            for device in where.devices
        }

    def _of(self, where: Placement) -> tuple[NodeView, ...]:
        """The nodes that admit such pods; tiers of one pool share the answer."""
        same = repr((sorted(where.node_selector.items()), where.node_expressions, where.tolerations))
        if same not in self._admitted:
            self._admitted[same] = tuple(node for node in self._nodes if admits(node, where))
        return self._admitted[same]


def _placement(tier: InferenceTier) -> Placement | None:
    try:
        return placement(tier.spec)
    except RefusedError:
        return None


def admits(node: NodeView, where: Placement) -> bool:
    """Whether the scheduler would look at the node for this tier's pods at all."""
    labels = node.labels
    return (
        node.takes_pods
        and all(labels.get(key) == value for key, value in where.node_selector.items())
        and all(_meets(labels, each) for each in where.node_expressions)
        and all(any(_tolerates(each, taint) for each in where.tolerations) for taint in node.taints)
    )


def _fits(
    needs: Mapping[str, Decimal],
    allocatable: Mapping[str, Decimal],
    taken: Mapping[str, Decimal],
    own: Mapping[str, Decimal],
) -> int:
    none = Decimal(0)
    free = (
        (allocatable.get(name, none) - taken.get(name, none) + own.get(name, none)) // amount
        for name, amount in needs.items()
    )
    return max(0, min(int(each) for each in free))


def _taken(pods: Iterable[Object]) -> dict[str, dict[str, Decimal]]:
    taken: dict[str, dict[str, Decimal]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            continue
        on_node = taken.setdefault(str(node), {})
        _add(on_node, requests_of(pod))
    return taken


def _summed(each_taken: Iterable[Mapping[str, Mapping[str, Decimal]]]) -> dict[str, dict[str, Decimal]]:
    total: dict[str, dict[str, Decimal]] = {}
    for taken in each_taken:
        for node, amounts in taken.items():
            _add(total.setdefault(node, {}), amounts)
    return total


def _add(to: dict[str, Decimal], amounts: Mapping[str, Decimal]) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, Decimal(0)) + amount


def _meets(labels: Mapping[str, str], expression: Mapping[str, object]) -> bool:
    """One NodeSelectorRequirement, by the scheduler's rules: a missing label passes NotIn and DoesNotExist alone."""
    key, operator = str(expression["key"]), expression["operator"]
    listed = expression.get("values")
    values = [str(each) for each in listed] if isinstance(listed, list) else []
    value = labels.get(key)
    if operator in ("NotIn", "DoesNotExist"):
        return value is None or (operator == "NotIn" and value not in values)
    if value is None:
        return False
    if operator in ("Gt", "Lt"):
        return _compares(value, values, above=operator == "Gt")
    return operator == "Exists" or value in values


def _compares(value: str, values: list[str], *, above: bool) -> bool:
    try:
        have, bound = int(value), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if above else have < bound


def _tolerates(toleration: Mapping[str, object], taint: Taint) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    if effect not in (None, taint.effect) or (key or taint.key) != taint.key:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.value
