"""Firewall rules of the nodes' network, and who else is on the machine."""

import json
from pathlib import Path

import pytest

from dev.cluster.network.host_network import firewall, hairpin_rule
from dev.cluster.network.slot import Holder, comment, run_dir_in, tables_of_clusters, taken
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
    assert tables_of_clusters("") == []
    assert tables_of_clusters("table ip filter\ntable inet twins\ntable inet firewalld\n") == []
    listed = "table ip kube-proxy\ntable ip6 kube-proxy\ntable inet tw01beef\ntable ip nat\n"
    assert tables_of_clusters(listed) == ["ip kube-proxy", "ip6 kube-proxy", "inet tw01beef"]


CACHE = Path("/home/me/.cache/tierwright")
RUN_DIR = CACHE / "clusters" / "demo"
TABLES = ["ip kube-proxy", "inet tw01beef"]


def said(holder: Holder | None, others: list[str] | None = None, cache: Path = CACHE) -> str:
    """The refusal where these tables are there and the second of them has this holder."""
    return taken(TABLES, {TABLES[1]: holder} if holder else {}, others or [], cache)


def test_the_cluster_that_holds_the_place_is_named_with_the_command_that_ends_it() -> None:
    text = said(Holder(RUN_DIR, exists=True, alive=True))
    assert "cluster demo runs already" in text
    assert text.endswith(".venv/bin/python -m dev.cluster down --name demo")
    assert "TIERWRIGHT_CACHE" not in text


def test_a_cluster_of_another_cache_is_ended_with_that_caches_setting() -> None:
    text = said(Holder(RUN_DIR, exists=True, alive=True), cache=Path("/srv/cache"))
    assert f"TIERWRIGHT_CACHE={CACHE} .venv/bin/python -m dev.cluster down --name demo" in text


@pytest.mark.parametrize(
    "holder",
    [
        None,
        Holder(RUN_DIR, exists=True, alive=True),
        Holder(RUN_DIR, exists=True, alive=False),
        Holder(RUN_DIR, exists=False, alive=True),
    ],
)
def test_a_table_is_never_to_be_deleted_by_hand_while_its_cluster_may_live(holder: Holder | None) -> None:
    assert "nft delete" not in said(holder)
    assert "nft delete" not in taken(["ip kube-proxy"], {}, ["k3s"], CACHE)


def test_rules_of_a_cluster_that_is_gone_for_good_are_removed_by_hand() -> None:
    text = said(Holder(RUN_DIR, exists=False, alive=False))
    assert text.endswith("nft delete table ip kube-proxy; nft delete table inet tw01beef")


def test_another_kubernetes_on_the_machine_is_named() -> None:
    assert "another Kubernetes (k3s)" in taken(["ip kube-proxy"], {}, ["k3s", "k3s"], CACHE)


def test_a_table_tells_the_run_folder_of_its_cluster() -> None:
    assert f'counter drop comment "{comment(RUN_DIR)}"' in firewall(PLAN, comment(RUN_DIR))
    listed = {"nftables": [{"metainfo": {}}, {"rule": {"comment": comment(RUN_DIR)}}]}
    assert run_dir_in(json.dumps(listed)) == RUN_DIR
    assert run_dir_in('{"nftables": [{"rule": {"comment": "mine"}}]}') is None


@pytest.mark.parametrize("folder", [Path('/a"b'), Path("/" + "x" * 127)])
def test_a_folder_that_no_comment_can_hold_is_left_out(folder: Path) -> None:
    assert comment(folder) == ""
    assert "comment" not in firewall(PLAN, comment(folder))
