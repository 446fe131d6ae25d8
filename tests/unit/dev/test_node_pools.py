"""The table of pools: what every tier of the tests and the demo is pinned to."""

import re

import pytest

from dev.cluster.nodes.pools import FAST, INF2, POOLS, STANDARD, Pool, pool

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize("each", POOLS, ids=lambda each: each.name)
def test_labels_and_taints_are_legal_for_kubernetes(each: Pool) -> None:
    for value in [*each.node_labels(1).values(), *(taint.value for taint in each.taints)]:
        assert _LABEL_VALUE.fullmatch(value)
    for key in each.node_labels(1):
        prefix, slash, name = key.partition("/")
        assert slash
        assert "." in prefix
        assert _LABEL_VALUE.fullmatch(name)
    assert all(taint.effect in {"NoSchedule", "PreferNoSchedule", "NoExecute"} for taint in each.taints)


@pytest.mark.parametrize("each", POOLS, ids=lambda each: each.name)
def test_a_kubelet_may_set_every_label_of_a_pool_itself(each: Pool) -> None:
    # NodeRestriction refuses other labels of Kubernetes' own domains when a node registers.
    allowed = ("node.kubernetes.io/", "topology.kubernetes.io/", "kubelet.kubernetes.io/")
    for key in each.node_labels(1):
        domain = key.partition("/")[0]
        own = domain.endswith((".kubernetes.io", ".k8s.io")) or domain in {"kubernetes.io", "k8s.io"}
        assert not own or key.startswith(allowed)


def test_no_two_pools_share_a_name_or_their_identifying_label() -> None:
    assert len({each.name for each in POOLS}) == len(POOLS)
    identities = [
        each.labels.get("karpenter.sh/nodepool") or each.labels["cloud.google.com/gke-nodepool"]
        for each in POOLS
    ]
    assert identities == [each.name for each in POOLS]


def test_the_demo_has_real_nodes_of_a_fast_and_a_standard_nvidia_pool() -> None:
    assert (STANDARD.real_nodes, FAST.real_nodes) == (1, 1)
    assert all(each.devices["nvidia.com/gpu"] > 0 for each in (STANDARD, FAST))


def test_some_real_node_takes_pods_that_tolerate_nothing() -> None:
    assert any(each.real_nodes and not each.taints for each in POOLS)


def test_inferentia2_chips_have_two_cores_each() -> None:
    assert INF2.devices["aws.amazon.com/neuroncore"] == 2 * INF2.devices["aws.amazon.com/neuron"]


def test_nodes_of_a_pool_spread_over_two_zones() -> None:
    zones = [FAST.node_labels(number)["topology.kubernetes.io/zone"] for number in (1, 2, 3)]
    assert zones == ["local-a", "local-b", "local-a"]
    assert FAST.node_name(2) == "fast-2"


def test_an_unknown_pool_is_refused_with_the_names_there_are() -> None:
    assert pool("inf2") is INF2
    with pytest.raises(KeyError, match=r"no pool 'gold'; there are standard, fast,"):
        pool("gold")
