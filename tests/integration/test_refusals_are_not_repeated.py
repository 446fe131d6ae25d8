"""What the API server refuses is said once and tried once per resync or not at all, never in a hot loop.

LLMKube#606: after an upgrade the operator fought an immutable selector on every old Deployment. kserve#5988: a role
that lacked a verb gave an endless retry and an empty status.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration.live import (
    NAME,
    Object,
    apply_ready,
    events,
    tier,
    uid,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.activity import tries_allowed, wait_resyncs, writes
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

ROLE = "tierwright-operator"


def written_over(
    cluster: "Cluster", operator: "OperatorProcess", k8s: Kubernetes, resyncs: int
) -> tuple[list[str], int]:
    """The operator's writes in the namespace during so many resyncs, and how often one refused write may be tried."""
    wait_resyncs(operator, 1)
    allowed = tries_allowed()
    before = len(writes(cluster.audit_log, operator.user, k8s.namespace))
    wait_resyncs(operator, resyncs)
    return writes(cluster.audit_log, operator.user, k8s.namespace)[before:], allowed()


@contextmanager
def operator_without(admin: Kubernetes, resource: str, *verbs: str) -> Iterator[None]:
    """The operator's role lacks these verbs for a while."""
    role = admin.must_get("ClusterRole", ROLE)
    rules = role["rules"]
    less = []
    for rule in rules:
        others = [each for each in rule["resources"] if each != resource]
        if others:
            less.append({**rule, "resources": others})
        kept = [verb for verb in rule["verbs"] if verb not in verbs]
        if resource in rule["resources"] and kept:
            less.append({**rule, "resources": [resource], "verbs": kept})
    admin.patch("ClusterRole", ROLE, {"rules": less})
    try:
        yield
    finally:
        admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
        admin.patch("ClusterRole", ROLE, {"rules": rules})


def test_deployment_with_another_selector_stays_and_is_not_fought(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    labels = {"tierwright.dev/tier": NAME, "app.kubernetes.io/managed-by": "tierwright"}
    pods = {"app": "of-another-release"}
    other: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": pods},
            "template": {
                "metadata": {"labels": {**pods, **labels}},
                "spec": {"containers": [{"name": "engine", "image": "vllm"}], "nodeSelector": {"no": "node"}},
            },
        },
    }
    made = k8s.create(other)["metadata"]["uid"]
    k8s.apply(tier())
    said = wait_condition(k8s, "Stalled", "True", "Rejected")["message"]
    assert "immutable" in said
    wait_condition(k8s, "Ready", "False", "Rejected")
    found, allowed = written_over(cluster, operator, k8s, 4)
    assert len(found) <= allowed, found
    assert uid(k8s, "Deployment") == made
    wait_one_event(k8s, "Rejected")
    k8s.delete("Deployment", NAME)
    wait_ready(k8s)


@pytest.mark.parametrize(
    ("template", "is_final"),
    [
        pytest.param({"spec": {"terminationGracePeriodSecond": 5}}, True, id="400: only another spec helps"),
        pytest.param({"spec": {"dnsPolicy": "NoSuchPolicy"}}, False, id="422: once per resync"),
    ],
)
def test_refused_pod_template_costs_no_more_than_a_try_per_resync(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", template: Object, is_final: bool
) -> None:
    k8s.apply(tier(podTemplate=template))
    wait_condition(k8s, "Stalled", "True", "Rejected")
    wait_one_event(k8s, "Rejected")
    found, allowed = written_over(cluster, operator, k8s, 4)
    assert len(found) <= (0 if is_final else allowed), found
    assert len(events(k8s, "Rejected")) == 1


@pytest.mark.parametrize(
    ("resource", "verbs"),
    [
        pytest.param("services", ("create", "patch"), id="a child cannot be written"),
        pytest.param("deployments", ("get",), id="a child cannot be read"),
        pytest.param("inferencetiers", ("get",), id="the tier cannot be read"),
    ],
)
def test_verb_that_the_role_lacks_is_named_and_its_return_is_noticed(
    k8s: Kubernetes,
    cluster: "Cluster",
    operator: "OperatorProcess",
    admin: Kubernetes,
    resource: str,
    verbs: tuple[str, ...],
) -> None:
    apply_ready(k8s, tier("served", speed="served"))
    with operator_without(admin, resource, *verbs):
        k8s.apply(tier())
        said = wait_condition(k8s, "Stalled", "True", "Forbidden")["message"]
        assert f'cannot {verbs[-1]} resource "{resource}"' in said
        wait_one_event(k8s, "Forbidden")
        found, allowed = written_over(cluster, operator, k8s, 3)
        assert len(found) <= 2 * allowed, found  # two Services
        assert k8s.condition("served", "Ready")["status"] == "True"
    wait_ready(k8s)


def test_role_that_is_taken_away_as_a_whole_and_given_back(
    k8s: Kubernetes, operator: "OperatorProcess", admin: Kubernetes
) -> None:
    """Nothing can be said in a status then; the operator says it in /readyz, and goes on once it may."""
    apply_ready(k8s, tier())
    binding = admin.must_get("ClusterRoleBinding", ROLE)
    admin.delete("ClusterRoleBinding", ROLE)
    try:
        eventually(lambda: not operator.is_ready(), "the operator is not ready")
        assert operator.get("/livez") == "ok\n", "a restart would not help"
        k8s.delete("Service", NAME)
        k8s.apply(tier("standard", speed="standard"))
    finally:
        admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
        admin.create(
            {
                **{name: binding[name] for name in ("roleRef", "subjects")},
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": ROLE},
            }
        )
    eventually(operator.is_ready, "the operator is ready again")
    eventually(lambda: k8s.get("Service", NAME), "what was deleted meanwhile is back")
    wait_ready(k8s, "standard")


def test_namespace_that_ends_takes_its_tiers_along_and_is_not_fought(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", admin: Kubernetes
) -> None:
    """A namespace with tiers once stayed in Terminating, since children were made anew while it was emptied."""
    name = f"{k8s.namespace}-ending"
    other = Kubernetes(cluster.kubeconfig, name)
    try:
        other.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        apply_ready(
            other,
            tier(
                replicas=2,
                cache={
                    "weights": {"size": "1Gi", "storageClassName": "shared", "accessMode": "ReadWriteMany"}
                },
            ),
        )
        other.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
            }
        )
        admin.list("Namespace")
        admin.delete("Namespace", name)
        eventually(lambda: other.get("InferenceTier", NAME) is None, "the tier is gone")
        eventually(lambda: not other.list("Deployment") and not other.list("Service"), "its children too")
        wait_resyncs(operator, 2)
        assert other.list("Deployment") == []
        assert other.list("Service") == []
        refused = [each for each in writes(cluster.audit_log, operator.user, name) if each.endswith("403")]
        assert len(refused) <= 16, refused
        told = [each for each in refused if each.startswith("patch events/")]
        assert len(told) <= 1, "nothing new is taken there; one Event may find that out"
        other.patch("ConfigMap", "held", {"metadata": {"finalizers": None}})
        eventually(lambda: admin.get("Namespace", name) is None, "the namespace is gone", deadline_s=90)
    finally:
        other.close()
