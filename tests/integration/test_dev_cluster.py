"""A local cluster is up, plays pods as a kubelet would report them, and is gone without a trace."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.cluster import cluster as clusters
from dev.cluster import given, paths
from dev.cluster.cluster import Cluster
from dev.cluster.kwok import nodes as kwok
from dev.cluster.machine import processes
from dev.cluster.nodes.pools import CPU
from dev.cluster.programs import source
from tests.support.kubernetes import Kubernetes, Object, mutations
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PREFIX = "kwok.tierwright.dev"


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster of this module's own, since it loses nodes."""
    source.kwok()
    source.programs()
    with clusters.cluster(f"own-{os.getpid()}", use_given=False) as running:
        yield running


@pytest.fixture
def user(own: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """The administrator in a namespace of the test's own."""
    namespace = f"t{abs(hash(request.node.name)) % 10**9}"
    admin = Kubernetes(own.kubeconfig, namespace)
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    eventually(lambda: admin.must_get("ServiceAccount", "default"), "the namespace's service account")
    yield admin
    admin.delete("Namespace", namespace)


def pod(name: str = "engine", behaviour: str = "", **annotations: str) -> Object:
    """A pod that goes to the cpu pool; `run_seconds="2"` becomes the annotation run-seconds."""
    wanted = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    if behaviour:
        wanted[f"{PREFIX}/behaviour"] = behaviour
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": wanted},
        "spec": {
            "nodeSelector": {"karpenter.sh/nodepool": "cpu"},
            "containers": [{"name": "main", "image": "example.com/engine:1"}],
        },
    }


def status(user: Kubernetes, name: str = "engine") -> dict[str, Any]:
    return dict(user.must_get("Pod", name)["status"])


def container(user: Kubernetes, name: str = "engine") -> dict[str, Any]:
    statuses = status(user, name).get("containerStatuses") or [
        {"state": {}, "lastState": {}, "restartCount": 0}
    ]
    return dict(statuses[0])


def is_ready(user: Kubernetes, name: str = "engine") -> bool:
    conditions = status(user, name).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_it_is_up_beside_another_and_gone_without_a_trace(own: Cluster) -> None:
    """How soon is told and checked by the end-to-end tests, which have the machine for themselves."""
    name = f"brief-{os.getpid()}"
    with clusters.cluster(name, nodes="none", use_given=False) as brief:
        assert brief.api().ready()
        assert own.api().ready()
        assert brief.plane is not None
        assert own.plane is not None
        assert not set(brief.plane.ports.values()) & set(own.plane.ports.values())
        daemons = processes.load(brief.run_dir)
        assert {each.name for each in daemons} >= {"etcd", "kube-apiserver", "kube-scheduler"}
    assert not brief.run_dir.exists()
    assert not any(processes.alive(each) for each in daemons)
    assert processes.strays(brief.run_dir) == []
    assert own.api().ready()


def test_what_is_left_of_a_killed_cluster_is_gone_after_down() -> None:
    name = f"killed-{os.getpid()}"
    running = clusters.up(name, nodes="none", use_given=False)
    try:
        daemons = processes.load(running.run_dir)
        for daemon in daemons:
            os.kill(daemon.pid, signal.SIGKILL)
        with pytest.raises(LookupError, match=f"up --name {name}"):
            eventually_not_whole(name)
    finally:
        assert clusters.down(name)
    assert not running.run_dir.exists()
    assert not clusters.down(name)


def eventually_not_whole(name: str) -> None:
    eventually(lambda: not all(map(processes.alive, clusters.daemons(name))), "the daemons to be dead")
    clusters.attach(name)


def test_a_cluster_whose_owner_was_killed_is_swept_away() -> None:
    name = f"orphan-{os.getpid()}"
    code = (
        "import os, signal\n"
        "from dev.cluster.cluster import cluster\n"
        f"with cluster({name!r}, nodes='none', use_given=False):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == -signal.SIGKILL
    daemons = clusters.daemons(name)
    assert daemons
    assert all(processes.alive(each) for each in daemons)
    clusters.sweep()
    assert not any(processes.alive(each) for each in daemons)
    assert not paths.run_dir(name).exists()


def test_a_write_is_in_the_audit_log_with_its_user_and_object_and_a_read_is_not(
    own: Cluster, user: Kubernetes
) -> None:
    assert own.plane is not None
    someone = Kubernetes(own.plane.kubeconfig("someone", ["system:masters"]), user.namespace)
    someone.create(config_map("noted"))
    someone.get("ConfigMap", "noted")
    someone.delete("ConfigMap", "noted")

    def written() -> list[tuple[str, str, int]]:
        return [
            (event["verb"], event["objectRef"]["name"], event["responseStatus"]["code"])
            for event in mutations(own.audit_log, "someone")
            if event["objectRef"].get("namespace") == user.namespace
        ]

    eventually(lambda: len(written()) == 2, "both writes in the audit log")
    assert written() == [("create", "noted", 201), ("delete", "noted", 200)]
    assert all(
        json.loads(line)["verb"] not in {"get", "list", "watch"} for line in lines(own.audit_log)[:2000]
    )


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


def test_rbac_refuses_a_user_without_a_role(own: Cluster, user: Kubernetes) -> None:
    assert own.plane is not None
    stranger = own.plane.kubeconfig("stranger")
    done = subprocess.run(
        [own.kubectl, f"--kubeconfig={stranger}", "get", "pods"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'User "stranger" cannot list resource "pods"' in done.stderr


def test_a_pod_with_a_volume_and_a_device_becomes_ready(user: Kubernetes) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    user.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "weights"},
            "spec": claim,
        }
    )
    wanted = pod()
    wanted["spec"] |= {
        "nodeSelector": {"karpenter.sh/nodepool": "fast"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}],
    }
    wanted["spec"]["initContainers"] = [{"name": "fetch", "image": "example.com/fetch:1"}]
    wanted["spec"]["containers"][0] |= {
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
    }
    user.create(wanted)
    eventually(lambda: is_ready(user), "the pod to be Ready", 30)
    found = status(user)
    assert found["phase"] == "Running"
    assert found["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert found["podIP"]
    assert user.must_get("PersistentVolumeClaim", "weights")["status"]["phase"] == "Bound"
    wanted["metadata"]["name"] = "second"
    wanted["spec"].pop("volumes")
    wanted["spec"]["containers"][0].pop("volumeMounts")
    user.create(wanted)

    def says_why() -> bool:
        return any(
            "Insufficient nvidia.com/gpu" in each.get("message", "") for each in conditions(user, "second")
        )

    eventually(says_why, "the scheduler to say that devices are taken", 30)


def conditions(user: Kubernetes, name: str) -> list[dict[str, Any]]:
    return list(status(user, name).get("conditions", []))


@pytest.mark.parametrize(
    ("behaviour", "reason", "code"), [("crash-loop", "Error", 3), ("out-of-memory", "OOMKilled", 137)]
)
def test_a_crash_loop_shows_as_a_kubelet_reports_it(
    user: Kubernetes, behaviour: str, reason: str, code: int
) -> None:
    user.create(pod(behaviour=behaviour, exit_code="3", message="CUDA error"))
    eventually(lambda: container(user)["restartCount"] >= 2, "two restarts", 30)
    eventually(
        lambda: container(user)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff",
        "the back-off",
        30,
    )
    last = container(user)["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"], last["message"]) == (reason, code, "CUDA error")
    assert not is_ready(user)
    user.patch("Pod", "engine", {"metadata": {"annotations": {f"{PREFIX}/behaviour": None}}})
    eventually(lambda: is_ready(user), "the pod to recover", 30)


def test_a_pod_that_crashes_twice_is_ready_in_its_third_run(user: Kubernetes) -> None:
    user.create(pod(behaviour="crash-loop", crashes="2", backoff_seconds="0"))
    eventually(lambda: is_ready(user), "the pod to be Ready", 30)
    assert container(user)["restartCount"] == 2


def test_an_image_that_cannot_be_pulled_shows_its_name(user: Kubernetes) -> None:
    user.create(pod(behaviour="image-pull-failure"))
    eventually(
        lambda: container(user)["state"].get("waiting", {}).get("reason") == "ImagePullBackOff",
        "the back-off",
        30,
    )
    assert '"example.com/engine:1"' in container(user)["state"]["waiting"]["message"]
    assert status(user)["phase"] == "Pending"


def test_a_slow_pod_is_ready_after_its_time_and_not_before(user: Kubernetes) -> None:
    user.create(pod(startup_seconds="4"))
    eventually(lambda: container(user)["state"].get("running"), "the container to run", 30)
    eventually(lambda: is_ready(user), "the pod to be Ready", 30)
    by_type = {each["type"]: each["lastTransitionTime"] for each in conditions(user, "engine")}
    assert seconds(container(user)["state"]["running"]["startedAt"], by_type["Ready"]) in (3, 4, 5, 6)


def seconds(start: str, end: str) -> int:
    form = "%Y-%m-%dT%H:%M:%SZ"
    return int(time.mktime(time.strptime(end, form)) - time.mktime(time.strptime(start, form)))


def test_a_deleted_pod_takes_its_time_but_not_more_than_its_grace_period(user: Kubernetes) -> None:
    hung = pod(shutdown_seconds="600")
    hung["spec"]["terminationGracePeriodSeconds"] = 3
    user.create(hung)
    eventually(lambda: is_ready(user), "the pod to be Ready", 30)
    began = time.monotonic()
    user.delete("Pod", "engine")
    assert user.must_get("Pod", "engine")["metadata"]["deletionTimestamp"]
    eventually(lambda: user.get("Pod", "engine") is None, "the pod to be gone", 30)
    assert time.monotonic() - began > 1.5


@pytest.mark.parametrize(("behaviour", "phase"), [("", "Succeeded"), ("crash-loop", "Failed")])
def test_a_pod_without_restarts_ends(user: Kubernetes, behaviour: str, phase: str) -> None:
    once = pod(behaviour=behaviour)
    once["spec"]["restartPolicy"] = "Never"
    user.create(once)
    eventually(lambda: status(user).get("phase") == phase, phase, 30)


def test_a_lost_node_takes_the_readiness_of_its_pods_along_and_gives_it_back(
    own: Cluster, user: Kubernetes
) -> None:
    api = own.api()
    node = kwok.pool_nodes(CPU, 1, first=50)
    kwok.create_nodes(api, node)
    kwok.wait_ready(api, node, [])
    there = pod()
    there["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "cpu-50"}
    user.create(there)
    eventually(lambda: is_ready(user), "the pod to be Ready", 30)
    kwok.set_node_ready(api, "cpu-50", ready=False)
    assert not is_ready(user)
    eventually(
        lambda: any(each["key"].startswith("node.kubernetes.io/un") for each in taints(user, "cpu-50")),
        "the taint of a lost node",
        30,
    )
    kwok.set_node_ready(api, "cpu-50", ready=True)
    assert is_ready(user)
    user.delete("Node", "cpu-50")


def taints(user: Kubernetes, node: str) -> list[dict[str, str]]:
    return list(user.must_get("Node", node)["spec"].get("taints", []))


def test_a_cluster_that_kubeconfig_names_is_used_and_left_running(
    own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "config"
    elsewhere.write_bytes(own.kubeconfig.read_bytes())
    monkeypatch.setenv("KUBECONFIG", str(elsewhere))
    name = f"given-{os.getpid()}"
    with clusters.cluster(name) as found:
        assert found.plane is None
        assert found.version == own.version
        assert clusters.daemons(name) == []
        listed = subprocess.run(
            [found.kubectl, "get", "nodes", "-o", "name"],
            env=found.environ(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert "node/fast-1" in listed.stdout.splitlines()
        with pytest.raises(LookupError, match="audit log"):
            _ = found.audit_log
    assert not found.run_dir.exists()
    assert own.api().ready()


def test_a_cluster_that_does_not_answer_is_passed_over_with_the_reason(
    own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own.plane is not None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        silent = own.plane.kubeconfig("silent", server=f"https://127.0.0.1:{taken.getsockname()[1]}")
        elsewhere = tmp_path / "config"
        elsewhere.write_bytes(silent.read_bytes())
        said: list[str] = []
        assert given.find({**os.environ, "KUBECONFIG": str(elsewhere)}, said.append) is None
    assert "passed over" in said[0]
    assert "refused" in said[0]


def test_the_tools_write_below_the_run_folder_only(own: Cluster, tmp_path: Path) -> None:
    environ = {**own.environ(), "HOME": str(tmp_path)}
    for program, words in ((own.kubectl, ["get", "nodes"]), (own.helm, ["list", "--all-namespaces"])):
        subprocess.run([program, *words], env=environ, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_env_settings_make_a_shell_use_the_cluster(own: Cluster) -> None:
    shell = f'eval "$({sys.executable} -m dev.cluster env --name {own.name})" && kubectl get nodes -o name'
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    assert "node/cpu-1" in done.stdout.splitlines()
