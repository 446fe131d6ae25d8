"""Firewall rules of the nodes' network, and who else is on the machine."""

from dev.cluster.network.host_network import firewall, foreign_tables, hairpin_rule
from dev.cluster.network.subnets import choose

PLAN = choose("cluster", ["10.0.0.0/8"])  # so 172.16.0.0/16


def test_no_packet_of_a_pod_leaves_the_machine_and_none_comes_in() -> None:
    rules = firewall(PLAN)
    assert "ip saddr 172.16.0.0/16 ip daddr != 172.16.0.0/16 counter drop" in rules
    assert "ip daddr 172.16.0.0/16 ip saddr != 172.16.0.0/16 drop" in rules
    assert f'iifname != {{ "lo", "{PLAN.tag}*" }} ip daddr 172.16.0.0/16 drop' in rules


def test_the_hairpin_rule_covers_only_pods_of_the_same_node() -> None:
    rule = hairpin_rule(PLAN, 2)
    assert rule.count(str(PLAN.pods_of(2))) == 2
    assert rule.endswith("ct status dnat masquerade\n")


def test_another_cluster_with_real_nodes_is_noticed_and_other_firewalls_are_not() -> None:
    assert foreign_tables("") == []
    assert foreign_tables("table ip filter\ntable inet twins\ntable inet firewalld\n") == []
    listed = "table ip kube-proxy\ntable ip6 kube-proxy\ntable inet tw01beef\ntable ip nat\n"
    assert foreign_tables(listed) == ["ip kube-proxy", "ip6 kube-proxy", "inet tw01beef"]
