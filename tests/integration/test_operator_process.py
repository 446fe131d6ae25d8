"""The operator as a process of its own: how it starts, what it survives, and how it ends. It has a cluster to itself."""

import os
import re
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dev.cluster import cluster as clusters
from dev.cluster.api import Api
from dev.cluster.cluster import Cluster
from tests.support.kubernetes import Kubernetes, Object, fresh_namespace, mutations
from tests.support.operator_process import (
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
    started_operator,
)
from tests.support.tcp_proxy import proxied
from tests.support.waiting import eventually, holds_for
from tierwright.control.rbac import PERMISSIONS, policy_rules

pytestmark = pytest.mark.integration

CRD = "inferencetiers.tierwright.dev"
QUICK = {"resync_seconds": "2", "request_timeout_seconds": "2"}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    with clusters.cluster(name=f"operator-{os.getpid()}", nodes="none", use_given=False) as running:
        yield running


@pytest.fixture(scope="module")
def root(own: Cluster) -> Iterator[Kubernetes]:
    admin = Kubernetes(own.kubeconfig)
    yield admin
    admin.close()


@pytest.fixture
def identity(own: Cluster, root: Kubernetes, tmp_path: Path) -> tuple[Path, str]:
    """A kubeconfig of the operator's account under the shipped role, and its user name."""
    return operator_kubeconfig(root, own.helm, tmp_path)


@pytest.fixture
def user(own: Cluster, root: Kubernetes) -> Iterator[Kubernetes]:
    """Somebody with a fresh namespace, after the CRD was installed."""
    install_crd(root)
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def tier(name: str = "fast", sequences: int = 32) -> Object:
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name},
        "spec": {
            "model": {"name": "smollm2", "source": "pvc://models/smollm2"},
            "speed": name,
            "engine": {"type": "vllm", "maxModelLen": 4096, "batching": {"maxSequences": sequences}},
            "hardware": {"accelerator": "cpu", "resources": {"cpu": "1", "memory": "1Gi"}},
        },
    }


def served(user: Kubernetes, name: str = "fast") -> Object:
    """The tier's Deployment, once it is there and the tier has a status."""
    assert user.must_get("InferenceTier", name).get("status", {}).get("conditions")
    return user.must_get("Deployment", name)


def unready_words(operator: OperatorProcess) -> str:
    try:
        operator.get("/readyz")
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""
    return ""


def metric(operator: OperatorProcess, name: str) -> float:
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in operator.get("/metrics").splitlines()
        if re.match(rf"{name}(\{{| )", line)
    )


def test_it_waits_for_the_crd_and_outlives_its_removal(
    own: Cluster, root: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    root.delete("CustomResourceDefinition", CRD)
    eventually(lambda: root.get("CustomResourceDefinition", CRD) is None, "the CRD is gone")
    with started_operator(identity[0], identity[1], tmp_path, **QUICK) as operator:
        eventually(
            lambda: "waiting for the CustomResourceDefinition" in unready_words(operator), "it says so"
        )
        assert operator.get("/livez") == "ok\n", "a restart would not help"
        install_crd(root)
        eventually(operator.is_ready, "it is ready once the CRD is there")
        with fresh_namespace(own.kubeconfig) as user:
            user.apply(tier())
            eventually(lambda: served(user), "the tier is served")
            root.delete("CustomResourceDefinition", CRD)
            eventually(lambda: "CustomResourceDefinition" in unready_words(operator), "it waits again")
            install_crd(root)
            user.apply(tier("standard"))
            eventually(lambda: served(user, "standard"), "a tier of the new CRD is served")
        assert operator.process.poll() is None, "it is the same process all along"


def test_sigterm_ends_it_within_seconds(user: Kubernetes, identity: tuple[Path, str], tmp_path: Path) -> None:
    with running_operator(identity[0], identity[1], tmp_path, **QUICK) as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        started = time.monotonic()
        operator.process.terminate()
        assert operator.process.wait(timeout=15) == 0
        assert time.monotonic() - started < 6
        assert operator.log.read_text().splitlines()[-1].endswith("stopped")


def test_changes_during_an_outage_of_the_network_are_caught_up(
    user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    kubeconfig, name = identity
    with (
        proxied(kubeconfig, tmp_path) as (proxy, through),
        running_operator(through, name, tmp_path, **QUICK) as operator,
    ):
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        proxy.refuse()
        user.delete("Service", "fast")
        user.apply(tier("standard"))
        holds_for(lambda: user.get("Deployment", "standard") is None, "nothing can happen", 3)
        assert operator.get("/livez") == "ok\n"
        proxy.heal()
        eventually(lambda: user.must_get("Service", "fast"), "what was deleted is back")
        eventually(lambda: served(user, "standard"), "what was added is served")
        assert operator.process.poll() is None


def test_connections_that_go_silent_are_found_out_by_the_resync(
    user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    kubeconfig, name = identity
    with (
        proxied(kubeconfig, tmp_path) as (proxy, through),
        running_operator(through, name, tmp_path, **QUICK) as operator,
    ):
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        proxy.stall_present()
        user.delete("Service", "fast")
        eventually(lambda: user.must_get("Service", "fast"), "no watch told, yet it is back", deadline_s=40)
        assert metric(operator, "tierwright_resync_repairs_total") > 0


def test_a_restart_of_the_api_server_is_survived(
    own: Cluster, root: Kubernetes, user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    """The server's own watch cache starts anew, so old versions are gone and every watch must list again."""
    with running_operator(identity[0], identity[1], tmp_path, **QUICK) as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        restart_api_server(own)
        user.close()
        root.close()
        user.delete("Service", "fast")
        eventually(lambda: user.must_get("Service", "fast"), "it is served as before")
        user.apply(tier("standard"))
        eventually(lambda: served(user, "standard"), "new tiers are seen")
        assert operator.process.poll() is None


def restart_api_server(own: Cluster) -> None:
    from dev.cluster.control_plane import launch
    from dev.cluster.machine import processes

    assert own.plane is not None
    (server,) = [each for each in clusters.daemons(own.name) if each.name == "kube-apiserver"]
    processes.stop([server])
    launch._start(own.plane, "kube-apiserver", launch.apiserver_flags(own.plane))
    api = Api.from_kubeconfig(own.kubeconfig)
    eventually(api.ready, "the API server is back")
    api.close()


def test_fifty_edits_in_a_second_end_with_the_last_one_after_few_runs(
    user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    with running_operator(identity[0], identity[1], tmp_path, resync_seconds="300") as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        before = metric(operator, "tierwright_reconcile_duration_seconds_count")
        for number in range(50):
            user.patch(
                "InferenceTier", "fast", {"spec": {"engine": {"batching": {"maxSequences": 100 + number}}}}
            )

        def last_is_live() -> bool:
            args = served(user)["spec"]["template"]["spec"]["containers"][0]["args"]
            return any("149" in each for each in args)

        eventually(last_is_live, "the last edit is live")
        assert metric(operator, "tierwright_reconcile_duration_seconds_count") - before < 30


def test_a_fight_over_a_child_ends_after_a_few_rounds_and_is_told(
    own: Cluster, user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    """Another controller, or an operator of another version, undoes each apply a moment later."""
    with running_operator(identity[0], identity[1], tmp_path, resync_seconds="300") as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")

        def fight() -> bool:
            if user.must_get("Service", "fast")["spec"]["selector"] != {"app": "hijacked"}:
                user.patch(
                    "Service",
                    "fast",
                    {"spec": {"selector": {"app": "hijacked", "tierwright.dev/tier": None}}},
                )
            return bool(user.condition("fast", "Stalled")["reason"] == "DriftNotCorrected")

        def child_writes() -> int:
            made = [each["objectRef"] for each in mutations(own.audit_log, operator.user)]
            # Of this namespace alone: one of an earlier test may be on its way out still.
            return sum((each["resource"], each["namespace"]) == ("services", user.namespace) for each in made)

        eventually(fight, "the tier says that something undoes it")
        before = child_writes()
        holds_for(fight, "it stays so", seconds=4)
        assert child_writes() <= before + 1, "one more apply at most, which was on its way"
        assert "again and again" in user.condition("fast", "Stalled")["message"]


def test_a_namespaced_install_serves_its_namespaces_alone_under_a_role(
    own: Cluster, root: Kubernetes, user: Kubernetes, tmp_path: Path
) -> None:
    kubeconfig = namespaced_account(own, user, tmp_path)
    with (
        fresh_namespace(own.kubeconfig) as other,
        running_operator(kubeconfig, "", tmp_path, namespaces=user.namespace, **QUICK) as operator,
    ):
        other.apply(tier())
        user.apply(tier())
        eventually(lambda: served(user), "its own tier is served")
        holds_for(lambda: other.get("Deployment", "fast") is None, "other namespaces are left alone", 3)
        assert metric(operator, "tierwright_watch_restarts_total") == 0
        assert 'code="403"' not in operator.get("/metrics")


def namespaced_account(own: Cluster, user: Kubernetes, folder: Path) -> Path:
    user.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}})
    user.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "operator"},
            "rules": policy_rules(PERMISSIONS),
        }
    )
    user.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": user.namespace}],
        }
    )
    api = Api.from_kubeconfig(own.kubeconfig)
    token = api.request(
        "POST",
        f"{user.path('ServiceAccount', 'operator')}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )["status"]["token"]
    api.close()
    config = yaml.safe_load(own.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "operator"
    path = folder / "namespaced.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_it_leaves_no_trace_of_kopf_and_no_secret_in_its_log(
    user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    kubeconfig, name = identity
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    with running_operator(kubeconfig, name, tmp_path, log_level="DEBUG", **QUICK) as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        eventually(lambda: metric(operator, "tierwright_resyncs_total") >= 2, "it worked for a while")
        metadata = user.must_get("InferenceTier", "fast")["metadata"]
        assert "finalizers" not in metadata
        assert "annotations" not in metadata
        managers = {each["manager"] for each in metadata["managedFields"]}
        assert managers == {"test-user", "tierwright-status"}
        log = operator.log.read_text()
        assert token not in log
        assert "Bearer" not in log


def test_its_memory_at_rest_is_small(user: Kubernetes, identity: tuple[Path, str], tmp_path: Path) -> None:
    with running_operator(identity[0], identity[1], tmp_path, **QUICK) as operator:
        user.apply(tier())
        eventually(lambda: served(user), "the tier is served")
        status = Path(f"/proc/{operator.process.pid}/status")
        if not status.exists():
            pytest.skip("the memory of a process is read from /proc")
        resident = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
        assert resident is not None
        assert int(resident.group(1)) < 110 * 1024
