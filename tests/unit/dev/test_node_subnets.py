"""Addresses of real nodes: nothing of this machine's networks is taken, and nothing overlaps."""

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.cluster.network.subnets import MAX_NODES, NoFreeSubnetError, choose, tag_of


@given(
    identity=st.text(max_size=20),
    taken=st.lists(
        st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(8, 32)).map(
            lambda parts: f"10.{parts[0]}.{parts[1]}.0/{max(parts[2], 12)}"
        ),
        max_size=8,
    ),
)
def test_a_chosen_network_overlaps_nothing_that_is_taken(identity: str, taken: list[str]) -> None:
    plan = choose(identity, taken)
    assert plan.network.is_private
    assert not any(plan.network.overlaps(IPv4Network(other, strict=False)) for other in taken)


def test_nodes_pods_and_services_never_overlap() -> None:
    plan = choose("x", [])
    parts = [plan.nodes, plan.services, *(plan.pods_of(index) for index in range(1, MAX_NODES + 1))]
    assert not any(one.overlaps(other) for one, other in combinations(parts, 2))
    assert all(part.subnet_of(plan.network) for part in parts)
    addresses = [plan.control_plane, *(plan.node(index) for index in range(1, MAX_NODES + 1))]
    assert len(set(addresses)) == len(addresses)
    assert all(address in plan.nodes for address in addresses)


@pytest.mark.parametrize("index", [0, MAX_NODES + 1])
def test_more_nodes_than_addresses_are_refused(index: int) -> None:
    plan = choose("x", [])
    for method in (plan.node, plan.pods_of, plan.pod_bridge):
        with pytest.raises(ValueError, match=f"1 to {MAX_NODES} real nodes"):
            method(index)


def test_a_default_route_and_ipv6_take_nothing_away() -> None:
    assert choose("x", ["0.0.0.0/0", "::/0", "fd00::/8"]).network == choose("x", []).network


def test_a_machine_with_all_of_10_in_use_gets_addresses_from_172_16() -> None:
    assert choose("x", ["10.0.0.0/8"]).network == IPv4Network("172.16.0.0/16")


def test_no_free_network_is_an_error_that_names_the_command_to_look_with() -> None:
    with pytest.raises(NoFreeSubnetError, match="ip route"):
        choose("x", ["10.0.0.0/8", "172.16.0.0/12"])


def test_names_of_links_fit_the_kernel_and_differ_between_clusters() -> None:
    plan = choose("a-cluster-with-a-long-name", [])
    assert len(plan.pod_bridge(MAX_NODES)) <= 15
    assert len({plan.node_bridge, plan.pod_bridge(1), plan.pod_bridge(11)}) == 3
    assert tag_of("one") != tag_of("two")
    assert tag_of("one") == tag_of("one")
