"""The chart on a real API server: installed, upgraded and removed without a tier lost or a deletion stuck."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import chart
from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from tests.support.kubernetes import Kubernetes
from tests.support.operator_process import running_operator
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
CRD = "inferencetiers.tierwright.dev"
TIER = (ROOT / "docs/samples/cpu-vllm.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Shell:
    """Runs helm and kubectl against the cluster, as a user would."""

    cluster: Cluster
    admin: Kubernetes

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        program = {"helm": self.cluster.helm, "kubectl": self.cluster.kubectl}[words[0]]
        return subprocess.run(
            [program, *words[1:]],
            env=self.cluster.environ(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    def must(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def install(self, *options: str, release: str = "tierwright", folder: Path = chart.CHART) -> str:
        return self.must("helm", "install", release, str(folder), *IN_SYSTEM, "--create-namespace", *options)

    def may(self, user: str, verb: str, resource: str, namespace: str) -> bool:
        """Whether the user may; ``resource`` is ``plural.group`` or ``plural.group/subresource``."""
        kind, _, subresource = resource.partition("/")
        done = self.run(
            *("kubectl", "auth", "can-i", verb, kind, f"--subresource={subresource}"),
            *("--namespace", namespace, f"--as={user}"),
        )
        assert done.stdout.strip() in ("yes", "no"), done.stderr
        return done.stdout.strip() == "yes"

    def apply_tier(self, namespace: str = "default") -> str:
        eventually(
            lambda: self.run("kubectl", "apply", "-n", namespace, "-f", "-", stdin=TIER).returncode == 0,
            "the tier is accepted",
        )
        return str(yaml.safe_load(TIER)["metadata"]["name"])

    def crd(self) -> dict[str, Any] | None:
        return self.admin.get("CustomResourceDefinition", CRD)


IN_SYSTEM = ("--namespace", chart.NAMESPACE)
OPERATOR = f"system:serviceaccount:{chart.NAMESPACE}:tierwright-operator"


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A cluster of this module's own: other tests could not stand the CRD's removal."""
    with clusters.cluster(f"chart-{os.getpid()}", nodes="kwok", use_given=False) as running:
        yield running


@pytest.fixture
def shell(own_cluster: Cluster) -> Iterator[Shell]:
    """helm and kubectl; whatever a test has installed is removed afterwards."""
    admin = Kubernetes(own_cluster.kubeconfig)
    shell = Shell(own_cluster, admin)
    try:
        yield shell
        for release in (
            yaml.safe_load(shell.must("helm", "list", "--all-namespaces", "--output", "yaml")) or []
        ):
            shell.must("helm", "uninstall", release["name"], "--namespace", release["namespace"])
        shell.must("kubectl", "delete", "--ignore-not-found", "-f", str(ROOT / "manifests/install.yaml"))
        eventually(lambda: shell.crd() is None, "the CRD is gone")
    finally:
        admin.close()


def test_an_uninstall_keeps_every_tier_and_a_new_install_takes_them_up(shell: Shell) -> None:
    notes = shell.install("--wait", "--timeout", "120s")
    assert "kubectl create namespace serving" in notes
    name = shell.apply_tier()
    uid = shell.admin.must_get("InferenceTier", name)["metadata"]["uid"]
    shell.must("helm", "uninstall", "tierwright", *IN_SYSTEM)
    eventually(lambda: shell.admin.get("ClusterRole", "tierwright-operator") is None, "the role is gone")
    assert shell.admin.must_get("InferenceTier", name)["metadata"]["uid"] == uid
    shell.install()
    assert shell.admin.must_get("InferenceTier", name)["metadata"]["uid"] == uid


def test_tiers_and_the_crd_can_be_deleted_without_an_operator(shell: Shell) -> None:
    shell.install()
    name = shell.apply_tier()
    shell.must("helm", "uninstall", "tierwright", *IN_SYSTEM)
    shell.must("kubectl", "delete", "itier", name, "--timeout=30s")
    shell.must("kubectl", "delete", "crd", CRD, "--timeout=30s")


def test_an_uninstall_removes_the_crd_where_that_was_asked_for(shell: Shell) -> None:
    shell.install("--set", "crds.keep=false")
    shell.apply_tier()
    shell.must("helm", "uninstall", "tierwright", *IN_SYSTEM)
    eventually(lambda: shell.crd() is None, "the CRD and its tiers are gone")


def test_an_upgrade_brings_the_new_crd(shell: Shell, tmp_path: Path) -> None:
    older = tmp_path / "tierwright"
    shutil.copytree(chart.CHART, older)
    template = older / "templates/crd-inferencetiers.yaml"
    text = template.read_text(encoding="utf-8")
    template.write_text(text.replace("    - itier\n", "    - oldtier\n"), encoding="utf-8")
    shell.install(folder=older)
    eventually(
        lambda: (shell.crd() or {})["status"]["acceptedNames"]["shortNames"] == ["oldtier"], "the older CRD"
    )
    shell.must("helm", "upgrade", "tierwright", str(chart.CHART), *IN_SYSTEM)
    eventually(
        lambda: (shell.crd() or {})["status"]["acceptedNames"]["shortNames"] == ["itier"], "the newer CRD"
    )


def test_a_release_of_another_name_takes_a_kept_crd_only_when_told(shell: Shell) -> None:
    shell.install()
    name = shell.apply_tier()
    shell.must("helm", "uninstall", "tierwright", *IN_SYSTEM)
    refused = shell.run("helm", "install", "speeds", str(chart.CHART), *IN_SYSTEM)
    assert refused.returncode != 0
    assert "ownership" in refused.stderr
    shell.install("--take-ownership", release="speeds")
    assert shell.admin.get("InferenceTier", name) is not None


def test_the_plain_manifest_applies_client_side_and_then_changes_nothing(shell: Shell) -> None:
    manifest = str(ROOT / "manifests/install.yaml")
    shell.must("kubectl", "apply", "-f", manifest)
    again = shell.must("kubectl", "apply", "-f", manifest).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    shell.must(
        "kubectl",
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "--force-conflicts",
        "-f",
        manifest,
    )
    # The namespace enforces the restricted Pod Security Standard: a pod that is admitted meets it.
    shell.must("kubectl", *IN_SYSTEM, "rollout", "status", "deployment/tierwright-operator", "--timeout=120s")


def test_a_cluster_wide_operator_may_do_its_work_everywhere_and_no_more(shell: Shell) -> None:
    shell.install()
    assert shell.may(OPERATOR, "create", "deployments.apps", "default")
    assert shell.may(OPERATOR, "patch", "inferencetiers.tierwright.dev/status", "default")
    for verb, resource in [
        ("get", "secrets"),
        ("list", "nodes"),
        ("list", "secrets"),
        ("update", "inferencetiers.tierwright.dev"),
        ("delete", "inferencetiers.tierwright.dev"),
        ("create", "pods"),
        ("create", "pods/exec"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
    ]:
        assert not shell.may(OPERATOR, verb, resource, "default"), f"{verb} {resource}"


def test_a_namespaced_operator_may_do_its_work_there_alone(shell: Shell) -> None:
    for namespace in ("team-a", "team-b"):
        shell.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    shell.install("--set", "watchNamespaces={team-a,team-b}")
    for namespace, allowed in [
        ("team-a", True),
        ("team-b", True),
        ("default", False),
        (chart.NAMESPACE, False),
    ]:
        assert shell.may(OPERATOR, "list", "inferencetiers.tierwright.dev", namespace) is allowed
        assert shell.may(OPERATOR, "create", "deployments.apps", namespace) is allowed


def test_a_namespaced_operator_serves_its_namespaces_under_its_role(shell: Shell, tmp_path: Path) -> None:
    for namespace in ("team-a", "team-b"):
        shell.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    # The installed pod is played by kwok and does nothing; the process beside it has the account that the pod has.
    shell.install("--set", "watchNamespaces={team-a,team-b}")
    token = shell.must("kubectl", "create", "token", "tierwright-operator", *IN_SYSTEM).strip()
    config = yaml.safe_load(shell.admin.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    kubeconfig = tmp_path / "operator.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    name = shell.apply_tier("default")
    shell.apply_tier("team-a")
    with running_operator(kubeconfig, OPERATOR, tmp_path, namespaces="team-a,team-b", resync_seconds="3"):
        late = shell.apply_tier("team-b")
        eventually(
            lambda: all(shell.admin.get("Deployment", late, each) for each in ("team-a", "team-b")),
            "both tiers have their workloads",
        )
    assert shell.admin.get("Deployment", name, "default") is None
    assert "status" not in shell.admin.must_get("InferenceTier", name, "default")


def test_people_with_the_clusters_roles_can_use_tiers(shell: Shell) -> None:
    shell.install()
    for role in ("view", "edit", "admin"):
        shell.admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"person-{role}", "namespace": "default"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [
                    {"kind": "User", "name": f"person-{role}", "apiGroup": "rbac.authorization.k8s.io"}
                ],
            }
        )
    tiers, scale = "inferencetiers.tierwright.dev", "inferencetiers.tierwright.dev/scale"
    eventually(lambda: shell.may("person-edit", "create", tiers, "default"), "roles are aggregated")
    assert shell.may("person-edit", "patch", scale, "default")
    assert shell.may("person-admin", "delete", tiers, "default")
    eventually(lambda: shell.may("person-view", "watch", tiers, "default"), "roles are aggregated")
    assert not shell.may("person-view", "patch", scale, "default")
    assert not shell.may("person-view", "create", tiers, "default")
    assert not shell.may("person-edit", "patch", "inferencetiers.tierwright.dev/status", "default")
