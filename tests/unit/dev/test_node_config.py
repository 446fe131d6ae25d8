"""Configuration of real nodes: what several of them on one machine must not share."""

import json
import tomllib
from pathlib import Path

from dev.cluster.network.subnets import choose
from dev.cluster.nodes.node_config import (
    NodeFiles,
    cni_conflist,
    containerd_toml,
    corefile,
    kube_proxy_config,
    kubelet_argv,
    kubelet_config,
)
from dev.cluster.nodes.pools import FAST, STANDARD, Pool

PLAN = choose("cluster", ["10.0.0.0/8"])
ONE = NodeFiles(Path("/run dir/n/standard-1"), Path("/cache/nodes/standard-1"))
TWO = NodeFiles(Path("/run dir/n/fast-1"), Path("/cache/nodes/fast-1"))


def kubelet(index: int, files: NodeFiles, pool: Pool) -> dict[str, object]:
    text = kubelet_config(
        PLAN,
        index,
        files,
        pool,
        cgroup_root=f"/{PLAN.tag}/{index}",
        client_ca=Path("/ca.crt"),
        serving_cert=Path("/k.crt"),
        serving_key=Path("/k.key"),
        domain="cluster.local",
    )
    parsed: dict[str, object] = json.loads(text)
    return parsed


def test_two_kubelets_share_no_address_socket_cgroup_or_folder() -> None:
    one, two = kubelet(1, ONE, STANDARD), kubelet(2, TWO, FAST)
    for key in ("address", "containerRuntimeEndpoint", "cgroupRoot", "podLogsDir", "volumePluginDir"):
        assert one[key] != two[key]


def test_two_containerds_share_no_path() -> None:
    one, two = (tomllib.loads(containerd_toml(files, "localhost/pause:1")) for files in (ONE, TWO))
    assert not _paths(one) & _paths(two)
    assert one["grpc"]["address"] == str(ONE.socket)


def _paths(value: object) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_paths(each) for each in value.values()))
    return {value} if isinstance(value, str) and value.startswith(("/run", "/cache")) else set()


def test_a_kubelet_never_deletes_images_that_cannot_be_pulled_again() -> None:
    assert kubelet(1, ONE, STANDARD)["imageGCHighThresholdPercent"] == 100


def test_a_kubelet_serves_nobody_without_a_client_certificate_or_token() -> None:
    config = kubelet(1, ONE, STANDARD)
    assert config["authentication"] == {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/ca.crt"},
    }
    assert config["authorization"] == {"mode": "Webhook"}


def test_a_node_registers_with_the_labels_and_taints_of_its_pool() -> None:
    taints = kubelet(2, TWO, FAST)["registerWithTaints"]
    assert taints == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    argv = kubelet_argv(
        Path("/bin/kubelet"), PLAN, 2, TWO, "fast-1", FAST.node_labels(1), Path("/kubeconfig")
    )
    labels = next(word for word in argv if word.startswith("--node-labels=")).removeprefix("--node-labels=")
    assert dict(label.split("=") for label in labels.split(",")) == FAST.node_labels(1)


def test_pods_get_addresses_of_their_own_nodes_range_on_its_own_bridge() -> None:
    for index, files in ((1, ONE), (2, TWO)):
        plugin = json.loads(cni_conflist(PLAN, index, files))["plugins"][0]
        assert plugin["bridge"] == PLAN.pod_bridge(index)
        assert plugin["ipam"]["ranges"] == [[{"subnet": str(PLAN.pods_of(index))}]]
        assert plugin["hairpinMode"] is True


def test_kube_proxy_leaves_connection_tracking_of_the_machine_alone() -> None:
    config = json.loads(kube_proxy_config(PLAN, Path("/kubeconfig"), "standard-1", 1, 2))
    assert config["conntrack"] == {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }
    assert config["healthzBindAddress"].startswith("127.0.0.1:")


def test_names_outside_the_cluster_do_not_exist_but_those_inside_are_asked_first() -> None:
    text = corefile(PLAN, Path("/kubeconfig"), "cluster.local")
    inside, outside = text.split(".:53 {")
    assert inside.startswith("cluster.local:53 {")
    assert "kubernetes cluster.local" in inside
    assert "template" not in inside
    assert "rcode NXDOMAIN" in outside
