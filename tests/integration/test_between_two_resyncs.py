"""What the watches tell is acted upon at once, and fights end without a resync: it comes every five minutes here."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dev.cluster import cluster as clusters
from dev.cluster.api import MERGE_PATCH, ApiError
from dev.cluster.cluster import Cluster
from dev.cluster.control_plane.pki import KeyPair
from tests.integration.live import NAME, Object, replicas, tier
from tests.support.activity import writes
from tests.support.kubernetes import Kubernetes, fresh_namespace, mutations
from tests.support.operator_process import (
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
)
from tests.support.waiting import eventually, holds_for

pytestmark = pytest.mark.integration

ROLE = "tierwright-operator"


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster without another operator; no pod runs in it."""
    with clusters.cluster(name=f"between-{os.getpid()}", nodes="none", use_given=False) as running:
        yield running


@pytest.fixture(scope="module")
def identity(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A kubeconfig of the operator's account under the shipped role, and its user name."""
    admin = Kubernetes(own.kubeconfig)
    install_crd(admin)
    found = operator_kubeconfig(admin, own.helm, tmp_path_factory.mktemp("identity"))
    admin.close()
    return found


@pytest.fixture
def operator(identity: tuple[Path, str], tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that no resync helps."""
    with running_operator(*identity, tmp_path, resync_seconds="300") as running:
        yield running


@pytest.fixture
def user(own: Cluster) -> Iterator[Kubernetes]:
    """A user with a fresh namespace."""
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def apply_served(user: Kubernetes) -> None:
    """Apply a tier, and wait until its Deployment has replicas and its status says so."""
    user.apply(tier())

    def served() -> bool:
        status = user.must_get("InferenceTier", NAME)["status"]
        return bool(status["workload"]) and replicas(user) == status["desiredReplicas"]

    eventually(served, "the tier is served")


def forge(user: Kubernetes) -> None:
    """Says of the tier what is not so."""
    user.patch("InferenceTier", NAME, {"status": {"ready": "9/9", "readyReplicas": 9}}, subresource="status")


def is_forged(user: Kubernetes) -> bool:
    """Whether the status still says so."""
    return bool(user.must_get("InferenceTier", NAME)["status"]["ready"] == "9/9")


def test_forged_status_is_put_right_when_the_watch_tells(user: Kubernetes, operator: OperatorProcess) -> None:
    apply_served(user)
    for _ in range(2):
        forge(user)
        eventually(lambda: not is_forged(user), "the status tells the truth again", deadline_s=10)


def test_fight_over_the_status_ends_after_a_few_rounds(
    own: Cluster, user: Kubernetes, operator: OperatorProcess
) -> None:
    apply_served(user)

    def written() -> int:
        return sum("/status" in each for each in writes(own.audit_log, operator.user, user.namespace))

    def fight() -> bool:
        if not is_forged(user):
            forge(user)
        return "changes it again and again" in operator.log.read_text()

    eventually(fight, "the operator gives in for now")
    before = written()
    holds_for(lambda: fight() and written() <= before + 1, "one more write at most, which was on its way", 4)
    # An edit is news: its status is another one, and is written.
    user.patch("InferenceTier", NAME, {"spec": {"replicas": 4}})
    eventually(lambda: user.must_get("InferenceTier", NAME)["status"]["desiredReplicas"] == 4, "it is told")


def test_fight_over_the_replicas_ends_after_a_few_rounds_and_is_told(
    own: Cluster, user: Kubernetes, operator: OperatorProcess
) -> None:
    """Something that knows nothing of the tier scales its Deployment, such as a script or another operator."""
    apply_served(user)

    def fight() -> bool:
        if replicas(user) != 5:
            user.patch("Deployment", NAME, {"spec": {"replicas": 5}}, subresource="scale")
        return bool(user.condition(NAME, "Stalled")["reason"] == "DriftNotCorrected")

    def scaled() -> int:
        made = writes(own.audit_log, operator.user, user.namespace)
        return sum(each.startswith(f"patch deployments/ {NAME} ") for each in made)

    eventually(fight, "the tier says that something undoes it")
    said = user.condition(NAME, "Stalled")["message"]
    assert "spec.replicas again and again" in said
    before = scaled()
    holds_for(lambda: fight() and scaled() <= before + 1, "one more write at most, which was on its way", 4)
    user.patch("InferenceTier", NAME, {"spec": {"replicas": 3}})
    eventually(lambda: replicas(user) == 3, "another number is tried anew")


def limit_replicas(user: Kubernetes, most: int) -> Callable[[], None]:
    """A policy of the namespace that denies more replicas; returns what removes it."""
    base, name = "/apis/admissionregistration.k8s.io/v1", user.namespace
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["*"]}
    specs: dict[str, Object] = {
        "ValidatingAdmissionPolicy": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [rule],
            },
            "validations": [{"expression": f"object == null || object.spec.replicas <= {most}"}],
        },
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }
    plurals = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }
    for kind, spec in specs.items():
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        user._api.request("POST", f"{base}/{plurals[kind]}", body)

    def remove() -> None:
        for kind in reversed(specs):
            user._api.request("DELETE", f"{base}/{plurals[kind]}/{name}")

    return remove


def test_replicas_that_are_refused_are_told_and_not_tried_at_each_event(
    own: Cluster, user: Kubernetes, operator: OperatorProcess
) -> None:
    apply_served(user)
    remove = limit_replicas(user, 3)

    def in_force() -> bool:
        try:
            path = f"{user.path('Deployment', NAME)}?dryRun=All"
            user._api.request("PATCH", path, {"spec": {"replicas": 9}}, MERGE_PATCH)
        except ApiError:
            return True
        return False

    try:
        eventually(in_force, "the policy is in force")
        user.patch("InferenceTier", NAME, {"spec": {"replicas": 8}})

        def told() -> bool:
            stalled = user.condition(NAME, "Stalled")
            return stalled["status"] == "True" and f"Deployment {NAME}" in stalled["message"]

        eventually(told, "the refusal is told")

        def refused() -> int:
            made = writes(own.audit_log, operator.user, user.namespace)
            return sum(f"deployments/ {NAME}" in each and not each.endswith(" 200") for each in made)

        before = refused()
        for number in range(4):
            user.patch("Deployment", NAME, {"metadata": {"annotations": {"example.com/n": str(number)}}})
            user.patch("Deployment", NAME, {"spec": {"paused": True}})
            eventually(
                lambda: not user.must_get("Deployment", NAME)["spec"].get("paused"), "it is reconciled"
            )
        assert refused() == before
        user.patch("InferenceTier", NAME, {"spec": {"replicas": 2}})
        eventually(lambda: replicas(user) == 2, "another number is tried at once")
    finally:
        remove()


def put(pair: KeyPair, folder: Path) -> None:
    """Puts a certificate and its key where the kubeconfig looks for them."""
    for source, name in ((pair.cert, "tls.crt"), (pair.key, "tls.key")):
        fresh = folder / f"{name}.new"
        shutil.copy(source, fresh)
        fresh.replace(folder / name)


def bind(user: Kubernetes, name: str) -> None:
    """Gives the user of a certificate the shipped role, and takes it from the one before."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    user.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "by-certificate"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [subject],
        }
    )


def test_operator_goes_on_with_a_certificate_that_replaces_its_own(
    own: Cluster, user: Kubernetes, identity: tuple[Path, str], tmp_path: Path
) -> None:
    assert own.plane is not None
    config = yaml.safe_load(own.kubeconfig.read_text(encoding="utf-8"))
    files = {"client-certificate": str(tmp_path / "tls.crt"), "client-key": str(tmp_path / "tls.key")}
    config["users"] = [{"name": "operator", "user": files}]
    config["contexts"][0]["context"]["user"] = "operator"
    kubeconfig = tmp_path / "certificate.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    put(own.plane.authority.client("operator-of-monday"), tmp_path)
    bind(user, "operator-of-monday")
    with running_operator(kubeconfig, "", tmp_path, resync_seconds="300") as operator:
        apply_served(user)
        put(own.plane.authority.client("operator-of-tuesday"), tmp_path)
        eventually(lambda: "credentials were replaced" in _log_after_a_request(user, operator), "it noticed")
        bind(user, "operator-of-tuesday")
        user.patch("InferenceTier", NAME, {"spec": {"replicas": 2}})
        eventually(lambda: replicas(user) == 2, "it still sees edits and carries them out")
        user.delete("Service", NAME)
        eventually(lambda: user.get("Service", NAME), "and children")
        assert mutations(own.audit_log, "operator-of-tuesday")
        assert operator.process.poll() is None


def _log_after_a_request(user: Kubernetes, operator: OperatorProcess) -> str:
    """The operator looks at its files when it has something to ask."""
    user.patch("Service", NAME, {"spec": {"selector": {"asked": uuid.uuid4().hex[:6]}}})
    return operator.log.read_text()
