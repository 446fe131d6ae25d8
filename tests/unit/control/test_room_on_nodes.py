"""How many replicas the nodes themselves hold: by selectors, taints and what other tiers' pods take of them."""

from typing import Any

import pytest

from tests.unit.control import pods
from tests.unit.control.pods import Object
from tierwright.api.tier import InferenceTier
from tierwright.control.node_room import NodeRoom
from tierwright.observe.nodes import NodeView, node_view

GPU = "nvidia.com/gpu"
POOL = {"karpenter.sh/nodepool": "h100"}
OWN, OTHER = ("serving", "own"), ("serving", "other")
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def node(name: str = "a", gpus: int = 8, *, ready: str = "True", **spec: Any) -> NodeView:
    return node_view(
        {
            "metadata": {"name": name, "labels": {**POOL, "zone": "b", "generation": "9"}},
            "spec": {"taints": [TAINT], **spec},
            "status": {
                "allocatable": {GPU: str(gpus), "cpu": "190", "memory": "2000Gi", "odd": "many"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
    )


def tier(count: int = 2, *expressions: Object, cpu: str | None = None, **labels: str) -> Any:
    resources = {"cpu": cpu} if cpu else {}
    pool = {"matchLabels": labels or POOL, "matchExpressions": list(expressions)}
    return pods.tier(
        hardware={"accelerator": "nvidia", "count": count, "nodePool": pool, "resources": resources}
    )


def replicas_on_nodes(of: InferenceTier, nodes: list[NodeView], others: list[Object]) -> int | None:
    """Beside pods of other tiers; the tier's own take what they have already."""
    return NodeRoom(nodes, {OTHER: others, OWN: [takes("a", 1)]}).replicas(of, OWN)


def devices_on_nodes(of: InferenceTier, nodes: list[NodeView]) -> dict[str, int]:
    return NodeRoom(nodes, {}).devices(of)


def takes(node_name: str, gpus: int, phase: str = "Running") -> Object:
    pod = pods.pod(node=node_name, phase=phase)
    limits = {"limits": {GPU: str(gpus)}}
    return {**pod, "spec": {**pod["spec"], "containers": [{"resources": limits}, {"name": "sidecar"}]}}


def test_each_node_holds_as_many_as_fit_on_it() -> None:
    assert replicas_on_nodes(tier(3), [node(), node("b", 7)], []) == 4


def test_what_other_tiers_take_is_not_there() -> None:
    others = [takes("a", 3), takes("a", 1), takes("b", 8), takes("", 8), takes("a", 8, phase="Succeeded")]
    assert replicas_on_nodes(tier(2), [node()], others) == 2
    assert replicas_on_nodes(tier(2), [node()], [takes("a", 9)]) == 0


def test_the_scarcest_resource_decides() -> None:
    assert replicas_on_nodes(tier(1, cpu="48"), [node()], []) == 3


@pytest.mark.parametrize(
    "out",
    [
        node(ready="Unknown"),
        node(unschedulable=True),
        node(taints=[TAINT, {"key": "drained", "effect": "NoExecute"}]),
        node(
            taints=[{"key": GPU, "effect": "NoSchedule"}, {"key": "x", "value": "y", "effect": "NoSchedule"}]
        ),
    ],
)
def test_a_node_that_takes_no_pods_of_the_tier_holds_none(out: NodeView) -> None:
    assert replicas_on_nodes(tier(), [out], []) == 0
    assert devices_on_nodes(tier(), [out, node("b")]) == {"b": 8}


def test_a_taint_that_is_only_a_preference_keeps_nobody_out() -> None:
    assert replicas_on_nodes(tier(), [node(taints=[{"key": "x", "effect": "PreferNoSchedule"}])], []) == 4


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        ({"key": "x", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "x", "value": "y"}, True),
        ({"key": "x", "value": "z"}, False),
        ({"key": "x", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_are_tolerated_by_the_schedulers_rules(toleration: Object, holds: bool) -> None:
    tainted = node(taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}])
    spec = {**pods.tier_object()["spec"]["hardware"], "tolerations": [toleration]}
    assert replicas_on_nodes(pods.tier(hardware=spec), [tainted], []) == (8 if holds else 0)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "In", "values": ["a"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, False),
        ({"key": "none", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "generation", "operator": "Gt", "values": ["8"]}, True),
        ({"key": "generation", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["8"]}, False),
    ],
)
def test_expressions_are_met_by_the_schedulers_rules(expression: Object, holds: bool) -> None:
    assert replicas_on_nodes(tier(8, expression), [node()], []) == (1 if holds else 0)


def test_a_node_outside_the_pool_holds_none() -> None:
    assert replicas_on_nodes(tier(1, zone="a"), [node()], []) == 0


def test_tiers_that_are_refused_or_ask_for_nothing_are_not_limited() -> None:
    spec = {**pods.tier_object()["spec"]["hardware"], "hosts": 2}
    assert replicas_on_nodes(pods.tier(hardware=spec), [node()], []) is None
    assert devices_on_nodes(pods.tier(hardware=spec), [node()]) == {}
    on_cpu = pods.tier(hardware={"accelerator": "cpu"})
    assert replicas_on_nodes(on_cpu, [node()], []) is None
    assert devices_on_nodes(on_cpu, [node()]) == {}
