"""A tier is pinned completely on every accelerator: devices, pool, taints."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.support.tier_bundles import tier
from tierwright.api.conditions import Reason
from tierwright.hardware.accelerators import placement
from tierwright.hardware.refusal import RefusedError

ZONES = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
POOL = {"matchLabels": {"karpenter.sh/nodepool": "fast"}, "matchExpressions": [ZONES]}
TAINTS = [{"key": "dedicated", "operator": "Equal", "value": "llm", "effect": "NoSchedule"}]


@pytest.mark.parametrize("accelerator", ["nvidia", "neuron", "cpu"])
def test_selection_reaches_the_pod_whether_or_not_devices_are_asked_for(accelerator: str) -> None:
    where = placement(tier(accelerator, hardware={"nodePool": POOL, "tolerations": TAINTS}).spec)
    assert where.node_selector == {"karpenter.sh/nodepool": "fast"}
    assert ZONES in where.node_expressions
    assert TAINTS[0] in where.tolerations


@pytest.mark.parametrize(
    ("accelerator", "taint"), [("nvidia", "nvidia.com/gpu"), ("neuron", "aws.amazon.com/neuron")]
)
def test_tainted_accelerator_nodes_are_tolerated_without_being_asked(accelerator: str, taint: str) -> None:
    where = placement(tier(accelerator, hardware={"tolerations": TAINTS}).spec)
    assert where.tolerations == ({"key": taint, "operator": "Exists"}, TAINTS[0])


def test_a_pod_asks_for_its_own_share_of_gpus() -> None:
    where = placement(tier(engine={"tensorParallel": 2}, hardware={"count": 2}).spec)
    assert where.devices == {"nvidia.com/gpu": 2}


def test_another_resource_name_replaces_the_default() -> None:
    where = placement(tier(hardware={"resourceName": "example.com/gpu"}).spec)
    assert where.devices == {"example.com/gpu": 1}


def test_nodes_that_share_their_gpus_are_avoided() -> None:
    where = placement(tier().spec)
    assert where.node_expressions == (
        {
            "key": "nvidia.com/gpu.sharing-strategy",
            "operator": "NotIn",
            "values": ["time-slicing", "mps"],
        },
    )


def test_each_inferentia_chip_has_two_cores() -> None:
    where = placement(tier("neuron", engine={"tensorParallel": 12}, hardware={"count": 6}).spec)
    assert where.devices == {"aws.amazon.com/neuron": 6}
    assert where.env == {"NEURON_RT_NUM_CORES": "12"}


def test_cores_can_be_asked_for_one_by_one() -> None:
    hardware = {"count": 8, "resourceName": "aws.amazon.com/neuroncore"}
    where = placement(tier("neuron", engine={"tensorParallel": 8}, hardware=hardware).spec)
    assert where.devices == {"aws.amazon.com/neuroncore": 8}
    assert where.env == {"NEURON_RT_NUM_CORES": "8"}


def test_a_cpu_tier_asks_for_no_device_and_tolerates_no_accelerator() -> None:
    where = placement(tier("cpu").spec)
    assert where.devices == {}
    assert where.tolerations == ()
    assert where.node_expressions == ()
    assert where.env == {}


def test_an_expression_without_values_sends_no_empty_list() -> None:
    expression = {"key": "gpu", "operator": "Exists"}
    where = placement(tier("cpu", hardware={"nodePool": {"matchExpressions": [expression]}}).spec)
    assert where.node_expressions == (expression,)


def test_a_toleration_sends_no_empty_text() -> None:
    toleration = {"key": "", "operator": "Exists", "value": ""}
    where = placement(tier("cpu", hardware={"tolerations": [toleration]}).spec)
    assert where.tolerations == ({"operator": "Exists"},)


@pytest.mark.parametrize(
    ("accelerator", "hardware", "path", "reason"),
    [
        ("nvidia", {"hosts": 2}, "spec.hardware.hosts", Reason.UNSUPPORTED),
        (
            "nvidia",
            {"resourceName": "nvidia.com/mig-3g.40gb"},
            "spec.hardware.resourceName",
            Reason.UNSUPPORTED,
        ),
        (
            "nvidia",
            {"resourceName": "nvidia.com/gpu.shared"},
            "spec.hardware.resourceName",
            Reason.UNSUPPORTED,
        ),
        ("nvidia", {"count": None}, "spec.hardware.count", Reason.INVALID_SPEC),
        ("neuron", {"count": None}, "spec.hardware.count", Reason.INVALID_SPEC),
    ],
)
def test_what_is_not_there_yet_is_refused_with_its_field(
    accelerator: str, hardware: dict[str, object], path: str, reason: Reason
) -> None:
    with pytest.raises(RefusedError) as caught:
        placement(tier(accelerator, hardware=hardware).spec)
    assert caught.value.refusal.path == path
    assert caught.value.refusal.reason is reason
    assert path in str(caught.value)


def tolerated(taint: tuple[str, str, str], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the scheduler would pass over a taint of this key, value and effect."""
    key, value, effect = taint
    return any(
        item.get("key", key) == key
        and item.get("effect", effect) == effect
        and (item.get("operator") == "Exists" or item.get("value", "") == value)
        for item in tolerations
    )


@pytest.mark.parametrize(
    ("accelerator", "labels", "taint"),
    [
        ("nvidia", {"cloud.google.com/gke-nodepool": "h100"}, ("nvidia.com/gpu", "present", "NoSchedule")),
        ("nvidia", {"karpenter.sh/nodepool": "h100"}, ("nvidia.com/gpu", "true", "NoSchedule")),
        ("nvidia", {"eks.amazonaws.com/nodegroup": "l40s"}, ("nvidia.com/gpu", "", "NoExecute")),
        ("neuron", {"karpenter.sh/nodepool": "inf2"}, ("aws.amazon.com/neuron", "true", "NoSchedule")),
        (
            "neuron",
            {"eks.amazonaws.com/nodegroup": "trn1"},
            ("aws.amazon.com/neuron", "present", "NoSchedule"),
        ),
    ],
)
def test_the_pools_of_the_clouds_take_the_tier_without_more_settings(
    accelerator: str, labels: dict[str, str], taint: tuple[str, str, str]
) -> None:
    where = placement(tier(accelerator, hardware={"nodePool": {"matchLabels": labels}}).spec)
    assert where.node_selector == labels
    assert tolerated(taint, where.tolerations)
    assert not tolerated(("dedicated", "other-team", "NoSchedule"), where.tolerations)
