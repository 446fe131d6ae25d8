"""A settled tier costs no writes, edits are collected, and drift that cannot be corrected is reported, never fought."""

import json
import logging
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.live import (
    NAME,
    Object,
    apply_ready,
    tier,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support import activity
from tests.support.activity import wait_resyncs, writes_at_rest
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for
from tierwright.settings import Settings

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

log = logging.getLogger(__name__)


def writes(cluster: "Cluster", operator: "OperatorProcess", k8s: Kubernetes) -> list[str]:
    """The operator's writes in the test's namespace so far."""
    return activity.writes(cluster.audit_log, operator.user, k8s.namespace)


def test_settled_tier_writes_nothing_over_ten_resyncs(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    apply_ready(
        k8s,
        tier(
            replicas=2,
            hardware={**tier()["spec"]["hardware"], "resources": {"cpu": "1500m", "memory": "2048Mi"}},
            engine={"type": "vllm", "env": [{"name": "EMPTY", "value": ""}]},
            rollout={"maxUnavailable": "1", "startupTimeout": "90m"},
            podTemplate={"spec": {"hostNetwork": False, "tolerations": [{"key": "a", "operator": "Exists"}]}},
        ),
    )
    before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
    wait_resyncs(operator, 10)
    assert writes(cluster, operator, k8s)[len(before) :] == []


def test_tier_that_cannot_start_settles_as_well(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    pool = {"matchLabels": {"karpenter.sh/nodepool": "no-such"}}
    k8s.apply(
        tier(
            hardware={**tier()["spec"]["hardware"], "nodePool": pool},
            cache={"weights": {"size": "1Gi", "storageClassName": "no-such", "reclaimPolicy": "Delete"}},
        )
    )
    wait_condition(k8s, "Ready", "False", "StorageClassMissing")
    before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
    wait_resyncs(operator, 5)
    assert writes(cluster, operator, k8s)[len(before) :] == []


def test_labels_and_annotations_of_others_change_nothing(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    apply_ready(k8s, tier())
    before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
    foreign = {"metadata": {"labels": {"example.com/team": "ml"}, "annotations": {"example.com/seen": "1"}}}
    for kind in ("Deployment", "Service", "ServiceAccount", "InferenceTier"):
        k8s.patch(kind, NAME, foreign)
    for pod in k8s.list("Pod"):
        k8s.patch("Pod", pod["metadata"]["name"], foreign)
    wait_resyncs(operator, 2)
    assert writes(cluster, operator, k8s)[len(before) :] == []
    assert k8s.must_get("Service", NAME)["metadata"]["labels"]["example.com/team"] == "ml"


MOST_TRIES: Final = 8


def edit_fifty_times(k8s: Kubernetes, first: int) -> float:
    """Fifty generations of the tier, the last with a `maxModelLen` of `first` + 49; the seconds that they took."""
    began = time.monotonic()
    for number in range(50):
        k8s.patch("InferenceTier", NAME, {"spec": {"engine": {"maxModelLen": first + number}}})
    return time.monotonic() - began


def test_fifty_edits_in_a_second_are_collected_and_end_at_the_last_one(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    """A busy machine's API server may be too slow for it: then the edits of the last try took as long as is logged."""
    apply_ready(k8s, tier())
    for start in range(4096, 4096 + 100 * MOST_TRIES, 100):
        written = len(writes_at_rest(cluster.audit_log, operator, k8s.namespace))
        before = k8s.must_get("InferenceTier", NAME)["metadata"]["generation"]
        last = start + 49
        took = edit_fifty_times(k8s, start)
        log.info("fifty edits took %.2f s", took)
        if took < 1:
            break

    def arrived() -> bool:
        found = k8s.must_get("InferenceTier", NAME)
        return (
            str(last) in json.dumps(k8s.must_get("Deployment", NAME)["spec"]["template"])
            and found["status"]["observedGeneration"] == found["metadata"]["generation"] == before + 50
        )

    eventually(arrived, "the last edit is applied")
    wait_ready(k8s)
    since = writes(cluster, operator, k8s)[written:]
    applies = [each for each in since if each.startswith("patch deployments/ ")]
    # The first edit's window, one more for each window that the edits lasted, and one for what came while it was applied.
    assert 1 <= len(applies) <= took / Settings().window_seconds + 2, (took, since)


def test_status_edited_by_hand_is_put_right(k8s: Kubernetes, operator: "OperatorProcess") -> None:
    apply_ready(k8s, tier())
    k8s.patch("InferenceTier", NAME, {"status": {"ready": "9/9", "readyReplicas": 9}}, subresource="status")

    def right() -> bool:
        status: Object = k8s.must_get("InferenceTier", NAME)["status"]
        return (status["ready"], status["readyReplicas"]) == ("1/1", 1)

    eventually(right, "the status tells the truth again")


def test_policy_that_changes_a_child_back_is_reported_and_not_fought(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", admin: Kubernetes
) -> None:
    api = admin._api
    base = "/apis/admissionregistration.k8s.io/v1"
    name = f"{k8s.namespace}-deadline"
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": k8s.namespace}},
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "resources": ["deployments"],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ],
            },
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": '[JSONPatch{op: "replace", path: "/spec/progressDeadlineSeconds", value: 77}]'
                    },
                }
            ],
        },
    }
    binding: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    api.request("POST", f"{base}/mutatingadmissionpolicies", policy)
    api.request("POST", f"{base}/mutatingadmissionpolicybindings", binding)
    try:
        k8s.apply(tier())

        def mutated() -> bool:
            return bool(k8s.must_get("Deployment", NAME)["spec"]["progressDeadlineSeconds"] == 77)

        def provoke() -> bool:
            k8s.must_get("Deployment", NAME)
            k8s.patch("Deployment", NAME, {"metadata": {"annotations": {"example.com/x": "1"}}})
            return mutated()

        eventually(provoke, "the policy is in force")
        stalled = wait_condition(k8s, "Stalled", "True", "DriftNotCorrected")
        assert "spec.progressDeadlineSeconds" in stalled["message"]
        wait_condition(k8s, "Ready", "True", "Serving")
        before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
        wait_resyncs(operator, 4)
        assert writes(cluster, operator, k8s)[len(before) :] == []
        wait_one_event(k8s, "DriftNotCorrected")
    finally:
        api.request("DELETE", f"{base}/mutatingadmissionpolicybindings/{name}")
        api.request("DELETE", f"{base}/mutatingadmissionpolicies/{name}")
    # Nobody tells that the policy is gone: it is tried again after a dozen resyncs.
    wait_condition(k8s, "Reconciling", "False", "Settled", deadline_s=120)
    assert k8s.must_get("Deployment", NAME)["spec"]["progressDeadlineSeconds"] != 77


def test_deleted_tier_leaves_no_writes_behind(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    apply_ready(k8s, tier())
    k8s.delete("InferenceTier", NAME)
    eventually(lambda: k8s.get("Deployment", NAME) is None, "the children are collected")
    before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
    wait_resyncs(operator, 2)
    assert writes(cluster, operator, k8s)[len(before) :] == []
    holds_for(lambda: k8s.get("Service", NAME) is None, "nothing comes back", seconds=1)
