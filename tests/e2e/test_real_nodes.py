"""Real nodes run real containers: pools, Services, DNS, logs, exec, volumes and devices behave as on a cloud."""

import json
import subprocess
from pathlib import Path

import pytest

from dev.cluster.images import buildah
from dev.cluster.images.image import build_image
from dev.cluster.machine.mounts import mounts_below
from dev.cluster.network.commands import NetworkError
from dev.cluster.network.host_network import load_network, prepare_network, read_sysctl
from dev.cluster.nodes.pools import FAST, POOLS
from dev.cluster.nodes.real_nodes import stop_leftovers
from tests.e2e.machine import snapshot
from tests.e2e.real_cluster import (
    PROBE_IMAGE,
    RealCluster,
    claim,
    condition,
    gone,
    probe_pod,
    ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually


def test_nodes_have_the_labels_taints_and_devices_of_their_pools(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    seen = {node["metadata"]["name"]: node for node in k8s.list("Node")}
    expected = [(pool, number) for pool in POOLS for number in range(1, pool.real_nodes + 1)]
    assert set(seen) == {pool.node_name(number) for pool, number in expected}
    for pool, number in expected:
        node = seen[pool.node_name(number)]
        assert node["metadata"]["labels"].items() >= pool.node_labels(number).items()
        taints = [(taint["key"], taint["value"], taint["effect"]) for taint in node["spec"].get("taints", [])]
        assert taints == [(taint.key, taint.value, taint.effect) for taint in pool.taints]
        for device, count in pool.devices.items():
            assert node["status"]["allocatable"][device] == str(count)


def test_pods_of_a_built_image_become_ready_in_the_pool_they_are_pinned_to(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    for pool in ("fast", "standard"):
        k8s.create(probe_pod(pool, pool))
    placed = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in ready(k8s, "fast", "standard")}
    assert placed == {"fast": "fast-1", "standard": "standard-1"}
    assert "built on Python 3." in real_cluster.execute(k8s, "fast", "cat", "/built-on")


def test_an_image_holds_nothing_of_the_hosts_pip_settings_and_is_not_built_twice(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    k8s.create(probe_pod("clean"))
    ready(k8s, "clean")
    listed = real_cluster.execute(
        k8s, "clean", "sh", "-c", "cat /etc/pip.conf 2>/dev/null; ls /etc/ssl/certs"
    )
    assert listed.split() != []
    assert "[global]" not in listed
    said: list[str] = []
    probe = real_cluster.probe_context
    first = build_image(PROBE_IMAGE, probe, target="probe", progress=said.append)
    written = first.archive.stat().st_ino
    build_image(PROBE_IMAGE, probe, target="probe", progress=said.append)
    assert first.archive.stat().st_ino == written
    assert said == [f"image {PROBE_IMAGE} is up to date"] * 2


def test_a_build_leaves_no_mount_and_a_failing_one_shows_the_end_of_its_output(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "ARG PYTHON_IMAGE=python:3.12-slim\nFROM ${PYTHON_IMAGE}\nRUN echo last words && false\n"
    )
    with pytest.raises(buildah.BuildError, match="last words"):
        build_image("tierwright-broken:test", tmp_path, progress=lambda _: None)
    with buildah.session():  # so nobody else builds while we look
        assert mounts_below(buildah.storage_dir()) == []


def test_a_service_is_reached_by_name_from_pods_of_both_nodes_and_reaches_both(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    k8s.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "probe"},
            "spec": {"selector": {"app": "probe"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
    )
    names = {"one": "fast", "two": "standard"}
    for name, pool in names.items():
        k8s.create(probe_pod(name, pool))
    ready(k8s, *names)
    url = f"http://probe.{k8s.namespace}.svc.cluster.local/"
    script = (
        "import urllib.request as r\n"
        f"print(*{{r.urlopen('{url}', timeout=5).read().decode() for _ in range(40)}})"
    )

    def answers(pod: str) -> set[str]:
        words = real_cluster.execute(k8s, pod, "python3", "-c", script).split()
        assert set(words) == set(names), words
        return set(words)

    # kube-proxy writes a new endpoint a moment after the pod is Ready. From each pod, its own answer comes too:
    # without the hairpin rule those calls would time out.
    eventually(lambda: answers("one"), "both pods to answer the first through the Service", 30)
    eventually(lambda: answers("two"), "both pods to answer the second through the Service", 30)


def test_pods_reach_the_api_server_through_its_service(real_cluster: RealCluster, k8s: Kubernetes) -> None:
    k8s.create(probe_pod("client", "fast"))
    ready(k8s, "client")
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = (
        "import ssl, urllib.request as r\n"
        f"context = ssl.create_default_context(cafile='{folder}/ca.crt')\n"
        f"token = open('{folder}/token').read()\n"
        "request = r.Request('https://kubernetes.default.svc/version', headers={'Authorization': 'Bearer ' + token})\n"
        "print(r.urlopen(request, context=context, timeout=5).status)"
    )
    assert real_cluster.execute(k8s, "client", "python3", "-c", script).strip() == "200"


def test_logs_are_read_and_a_failing_command_says_so(real_cluster: RealCluster, k8s: Kubernetes) -> None:
    k8s.create(probe_pod("talks", "fast"))
    ready(k8s, "talks")
    logs = real_cluster.kubectl("-n", k8s.namespace, "logs", "talks")
    assert logs.stdout == "probe talks serves\n", logs.stderr
    failed = real_cluster.kubectl(
        "-n", k8s.namespace, "exec", "talks", "--", "python3", "-c", "raise SystemExit(7)"
    )
    assert failed.returncode == 7


def test_packets_of_a_pod_do_not_leave_the_machine(real_cluster: RealCluster, k8s: Kubernetes) -> None:
    k8s.create(probe_pod("curious", "standard"))
    ready(k8s, "curious")
    before = _dropped(real_cluster)
    # An address that documents use; nothing is there even if the packet got out.
    script = (
        "import socket\n"
        "try: print(socket.create_connection(('198.51.100.1', 80), timeout=1))\n"
        "except OSError as error: print('unreachable')"
    )
    assert real_cluster.execute(k8s, "curious", "python3", "-c", script).strip() == "unreachable"
    assert _dropped(real_cluster) > before
    outside = "import socket; socket.getaddrinfo('example.com', 80)"
    done = real_cluster.kubectl("-n", k8s.namespace, "exec", "curious", "--", "python3", "-c", outside)
    assert "Name or service not known" in done.stderr


def _dropped(cluster: RealCluster) -> int:
    plan = load_network(cluster.run_dir)
    assert plan is not None
    argv = ["nft", "-j", "list", "chain", "inet", plan.tag, "forward"]
    listed = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    words = [word for entry in listed["nftables"] for word in entry.get("rule", {}).get("expr", [])]
    return sum(int(word["counter"]["packets"]) for word in words if "counter" in word)


def test_data_on_a_volume_outlives_its_pod_and_pins_the_next_one(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    k8s.create(claim("data", "standard", "ReadWriteOnce"))
    k8s.create(probe_pod("first", "fast", volumes={"data": "/data"}))
    ready(k8s, "first")
    real_cluster.execute(k8s, "first", "sh", "-c", "echo kept > /data/file")
    k8s.delete("Pod", "first")
    gone(k8s, "Pod", "first")
    k8s.create(probe_pod("second", volumes={"data": "/data"}))
    (second,) = ready(k8s, "second")
    assert real_cluster.execute(k8s, "second", "cat", "/data/file") == "kept\n"
    assert second["spec"]["nodeName"] == "fast-1"


def test_a_shared_volume_is_mounted_on_two_nodes_at_once(real_cluster: RealCluster, k8s: Kubernetes) -> None:
    k8s.create(claim("cache", "shared", "ReadWriteMany"))
    for pool in ("fast", "standard"):
        k8s.create(probe_pod(pool, pool, volumes={"cache": "/cache"}))
    ready(k8s, "fast", "standard")
    real_cluster.execute(k8s, "fast", "sh", "-c", "echo weights > /cache/file")
    assert real_cluster.execute(k8s, "standard", "cat", "/cache/file") == "weights\n"


def test_a_claim_grows_in_place_while_it_is_in_use(real_cluster: RealCluster, k8s: Kubernetes) -> None:
    k8s.create(claim("grows", "shared", "ReadWriteMany"))
    k8s.create(probe_pod("user", volumes={"grows": "/data"}))
    ready(k8s, "user")
    k8s.patch("PersistentVolumeClaim", "grows", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})

    def capacity() -> bool:
        return bool(
            k8s.must_get("PersistentVolumeClaim", "grows")["status"]["capacity"] == {"storage": "3Gi"}
        )

    eventually(capacity, "the claim to have 3Gi", 30)
    assert condition(k8s.must_get("PersistentVolumeClaim", "grows"), "Resizing") == {}


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_a_deleted_claims_data_goes_or_stays_by_the_volumes_policy(
    real_cluster: RealCluster, k8s: Kubernetes, policy: str
) -> None:
    k8s.create(claim("data", "shared", "ReadWriteMany"))
    eventually(
        lambda: k8s.must_get("PersistentVolumeClaim", "data")["status"]["phase"] == "Bound", "a bound claim"
    )
    name = k8s.must_get("PersistentVolumeClaim", "data")["spec"]["volumeName"]
    k8s.patch("PersistentVolume", name, {"spec": {"persistentVolumeReclaimPolicy": policy}})
    folder = real_cluster.run_dir / "volumes" / name
    assert folder.is_dir()
    k8s.delete("PersistentVolumeClaim", "data")
    if policy == "Delete":
        gone(k8s, "PersistentVolume", name)
        assert not folder.exists()
    else:
        eventually(
            lambda: k8s.must_get("PersistentVolume", name)["status"]["phase"] == "Released",
            "a released volume",
        )
        assert folder.is_dir()
        k8s.delete("PersistentVolume", name)


def test_more_devices_than_a_node_has_stay_pending_with_the_schedulers_words(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    devices = FAST.devices["nvidia.com/gpu"]
    k8s.create(probe_pod("fits", "fast", devices={"nvidia.com/gpu": devices}))
    ready(k8s, "fits")
    k8s.create(probe_pod("too-many", "fast", devices={"nvidia.com/gpu": 1}))

    def refused() -> str:
        return str(condition(k8s.must_get("Pod", "too-many"), "PodScheduled").get("message", ""))

    assert "Insufficient nvidia.com/gpu" in eventually(refused, "the scheduler's words", 30)
    k8s.delete("Pod", "fits")
    # The device comes back with the pod that had it.
    ready(k8s, "too-many")


def test_a_pod_that_tolerates_nothing_is_kept_off_the_fast_pool(
    real_cluster: RealCluster, k8s: Kubernetes
) -> None:
    pod = probe_pod("plain", "fast")
    del pod["spec"]["tolerations"]
    k8s.create(pod)

    def refused() -> str:
        return str(condition(k8s.must_get("Pod", "plain"), "PodScheduled").get("message", ""))

    assert "untolerated taint" in eventually(refused, "the scheduler's words", 30)


def test_a_second_cluster_with_real_nodes_is_refused_and_harms_nothing(
    real_cluster: RealCluster, k8s: Kubernetes, tmp_path: Path
) -> None:
    with pytest.raises(
        NetworkError,
        match=f"cluster {real_cluster.run_dir.name} runs already.*down --name {real_cluster.run_dir.name}$",
    ):
        prepare_network(tmp_path / "second", "second")
    assert not (tmp_path / "second").exists()
    assert load_network(real_cluster.run_dir) is not None
    k8s.create(probe_pod("after", "fast"))
    ready(k8s, "after")


def test_the_record_of_a_cluster_from_before_a_reboot_harms_no_cluster_of_today(
    real_cluster: RealCluster, k8s: Kubernetes, tmp_path: Path
) -> None:
    stale = {"tag": "tw000000", "network": "10.1.0.0/16", "sysctls": {"net.ipv4.ip_forward": "0"}}
    (tmp_path / "network.json").write_text(json.dumps(stale))
    (tmp_path / "nodes.json").write_text(json.dumps({"existed": [], "nodes": []}))
    before = snapshot()
    stop_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
    # Not the whole snapshot: pods of other tests are still ending.
    assert (snapshot().tables, snapshot().sysctls) == (before.tables, before.sysctls)
    assert read_sysctl("net.ipv4.ip_forward") == "1"
    k8s.create(probe_pod("after", "fast"))
    ready(k8s, "after")
