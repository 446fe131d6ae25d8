"""Fields added by hand to a child stay and are told; what an admission policy adds is taken as it comes."""

from typing import TYPE_CHECKING

import pytest

from tests.integration.live import NAME, Object, apply_ready, events, tier
from tests.support.activity import wait_resyncs, writes, writes_at_rest
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]


def warnings(k8s: Kubernetes) -> list[str]:
    """The tier's warnings of added fields."""
    said = k8s.must_get("InferenceTier", NAME)["status"].get("warnings") or []
    return [line for line in said if " set by " in line]


def sidecar(image: str) -> Object:
    """A Deployment's part that a second manager applies."""
    container = {"name": "sidecar", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_tier_of_every_child_has_no_such_warning_by_itself(k8s: Kubernetes) -> None:
    weights = {"size": "1Gi", "storageClassName": "shared"}
    apply_ready(k8s, tier(cache={"weights": weights}))
    assert warnings(k8s) == []


def test_fields_by_hand_are_told_once_and_left_alone(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    apply_ready(k8s, tier())
    k8s.patch("Deployment", NAME, {"spec": {"template": {"spec": {"hostname": "by-hand"}}}})
    k8s.apply(sidecar("busybox"), manager="mesh")
    port = [{"name": "debug", "port": 9999, "targetPort": 9999}]
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {"ports": port},
    }
    k8s.apply(service, manager="debugger")

    def told() -> bool:
        said = "\n".join(warnings(k8s))
        assert "spec.template.spec.hostname set by" in said, said
        assert f"Deployment {NAME}: spec.template.spec.containers[sidecar] set by mesh" in said, said
        return f"Service {NAME}: spec.ports[9999/TCP] set by debugger" in said

    eventually(told, "all three are told")
    eventually(lambda: len(events(k8s, "FieldsAdded")) == 3, "an Event for each")
    live = k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"]
    assert live["hostname"] == "by-hand"
    assert len(live["containers"]) == 2
    before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
    wait_resyncs(operator, 2)
    assert writes(cluster.audit_log, operator.user, k8s.namespace) == before, "nothing is fought over"
    k8s.patch("Deployment", NAME, {"spec": {"template": {"spec": {"hostname": None}}}})
    k8s.apply({**sidecar(""), "spec": {}}, manager="mesh")
    k8s.apply({**service, "spec": {}}, manager="debugger")
    eventually(lambda: warnings(k8s) == [], "what was removed is no longer told")
    assert len(events(k8s, "FieldsAdded")) == 3


def test_restart_of_the_pods_by_kubectl_is_no_addition(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    stamp = {"kubectl.kubernetes.io/restartedAt": "2026-11-30T12:00:00Z"}
    k8s.patch("Deployment", NAME, {"spec": {"template": {"metadata": {"annotations": stamp}}}})
    eventually(lambda: len(k8s.list("ReplicaSet")) == 2, "the pods are replaced")
    assert warnings(k8s) == []


def test_sidecar_that_a_policy_adds_is_neither_told_nor_fought(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", admin: Kubernetes
) -> None:
    name, base = f"{k8s.namespace}-sidecar", "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "operations": ["CREATE", "UPDATE"],
    }
    mutation = (
        'object.spec.template.spec.containers.exists(c, c.name == "proxy") ? [] : [JSONPatch{op: "add",'
        ' path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "proxy",'
        ' image: "proxy:1"}}]'
    )
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": k8s.namespace}},
            "resourceRules": [rule],
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": mutation}}],
    }
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    for kind, body in zip(kinds, (spec, {"policyName": name}), strict=True):
        admin._api.request(
            "POST",
            f"{base}/{_plural(kind)}",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": body,
            },
        )
    try:
        probe: Object = {
            **sidecar("busybox"),
            "metadata": {"name": "probe"},
            "spec": {
                "selector": {"matchLabels": {"app": "probe"}},
                "template": {
                    "metadata": {"labels": {"app": "probe"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
                "replicas": 0,
            },
        }

        def in_force() -> bool:
            k8s.delete("Deployment", "probe")
            return len(k8s.create(probe)["spec"]["template"]["spec"]["containers"]) == 2

        eventually(in_force, "the policy is in force")
        apply_ready(k8s, tier())
        assert len(k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"]["containers"]) == 2
        before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
        wait_resyncs(operator, 3)
        assert writes(cluster.audit_log, operator.user, k8s.namespace)[len(before) :] == []
        assert warnings(k8s) == []
    finally:
        for kind in reversed(kinds):
            admin._api.request("DELETE", f"{base}/{_plural(kind)}/{name}")


def _plural(kind: str) -> str:
    return "mutatingadmissionpolicies" if kind.endswith("Policy") else "mutatingadmissionpolicybindings"
