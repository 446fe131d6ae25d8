"""What joins a control plane gets right: kubeconfigs, API client settings, ports, saved state, kwok's nodes."""

import json
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster import wrappers
from dev.cluster.api import Api
from dev.cluster.control_plane import launch
from dev.cluster.control_plane import plane as control_plane
from dev.cluster.control_plane.pki import create_authority
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.kwok import nodes as kwok
from dev.cluster.machine import locks
from dev.cluster.nodes.pools import FAST, POOLS


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    run_dir = tmp_path / "clusters" / "t"
    create_authority(run_dir / "pki", "t")
    return ControlPlane("t", run_dir, tmp_path / "bin", "127.0.0.1", {"kube-apiserver": 23456}, "v1.36.3")


def test_a_kubeconfig_stands_alone_and_is_private(plane: ControlPlane) -> None:
    path = plane.kubeconfig("system:node:fast-1", ["system:nodes"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:23456"
    assert str(plane.run_dir) not in path.read_text()


def test_kubeconfigs_of_two_users_do_not_overwrite_each_other(plane: ControlPlane) -> None:
    first, second = plane.kubeconfig("system:node:fast-1"), plane.kubeconfig("system:node:fast-2")
    assert first != second
    assert first.read_text() != second.read_text()


def test_the_server_can_be_a_proxy_in_between(plane: ControlPlane) -> None:
    config = yaml.safe_load(plane.kubeconfig("someone", server="https://127.0.0.1:1").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"


def test_a_control_plane_is_loaded_as_it_was_saved(plane: ControlPlane) -> None:
    assert control_plane.load("t") is None
    plane.save()
    assert control_plane.load("t") == plane


def test_half_written_state_counts_as_none(plane: ControlPlane) -> None:
    (plane.run_dir / "control-plane.json").write_text('{"name": "t"')
    assert control_plane.load("t") is None


@pytest.mark.parametrize(
    ("user", "server", "problem"),
    [
        ({"exec": {"command": "aws"}}, "https://127.0.0.1:1", "neither a client certificate nor a token"),
        ({"token": "t"}, "http://127.0.0.1:1", "not an https URL"),
    ],
)
def test_a_kubeconfig_that_the_client_cannot_use_is_refused_with_the_reason(
    tmp_path: Path, user: dict[str, Any], server: str, problem: str
) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=problem):
        Api.from_kubeconfig(path)


def test_a_server_that_is_not_there_is_not_ready(plane: ControlPlane) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        path = plane.kubeconfig("admin", server=f"https://127.0.0.1:{taken.getsockname()[1]}")
        assert not Api.from_kubeconfig(path, timeout_s=5).ready()


def test_ports_are_free_distinct_and_outside_of_nodeports_and_ephemeral_ports() -> None:
    ports = launch.free_ports("127.0.0.1")
    assert len(set(ports.values())) == len(ports) == 5
    for port in ports.values():
        assert 20000 <= port < 30000
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))


def test_no_program_listens_beyond_the_plane_s_address(plane: ControlPlane) -> None:
    ports = dict.fromkeys(("etcd", "etcd-peer", "kube-controller-manager", "kube-scheduler"), 20001)
    wide = ControlPlane(**{**vars(plane), "ports": {**plane.ports, **ports}})
    flags = [
        *launch.etcd_flags(wide),
        *launch.apiserver_flags(wide),
        *launch.controller_manager_flags(wide, Path("k"), 50),
        *launch.scheduler_flags(wide, Path("k")),
    ]
    assert [flag for flag in flags if flag.startswith("--bind-address")] == ["--bind-address=127.0.0.1"] * 3
    assert all("127.0.0.1" in flag for flag in flags if flag.startswith("--listen-"))


def test_kwok_nodes_show_what_the_table_of_pools_says() -> None:
    node = kwok.node_object(kwok.KwokNode(FAST, 2, 300))
    assert node["metadata"]["name"] == "fast-2"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "fast-2"
    assert node["metadata"]["labels"].items() >= dict(FAST.labels).items()
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["status"]["addresses"][0]["address"] == "10.64.1.44"


def test_a_thousand_nodes_have_names_and_addresses_of_their_own() -> None:
    nodes = [
        kwok.node_object(node) for node in [*kwok.default_nodes(), *kwok.pool_nodes(FAST, 1000, first=2)]
    ]
    assert (
        len({node["metadata"]["name"] for node in nodes})
        == len(nodes)
        == 1000 + sum(p.kwok_nodes for p in POOLS)
    )
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == len(nodes)


def test_a_wrapper_hands_arguments_over_unchanged_and_keeps_caches_in_the_run_folder(tmp_path: Path) -> None:
    program = tmp_path / "real tool"
    program.write_text('#!/bin/sh\nprintf "%s|" "$KUBECACHEDIR" "$@"\n')
    program.chmod(0o755)
    run_dir = tmp_path / "a run dir"
    wrapper = wrappers.wrap(run_dir, "kubectl", program)
    assert wrappers.wrap(run_dir, "kubectl", program) == wrapper
    done = subprocess.run([wrapper, "a b", "c'd", ""], capture_output=True, text=True, check=True)
    assert done.stdout == f"{run_dir}/tool-cache/kube|a b|c'd||"


def test_a_lock_is_free_again_when_its_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locks.locked(tmp_path / "lock", "waiting"):
        raise KeyError
    with locks.locked(tmp_path / "lock", "waiting"):
        pass
