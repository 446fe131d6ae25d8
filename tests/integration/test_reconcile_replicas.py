"""One owner of the replicas in every mode: kubectl scale, GitOps, an HPA and a person's edit do not fight."""

import pytest

from tests.integration.live import (
    AUTO,
    NAME,
    TIER_TARGET,
    apply_ready,
    autoscaler,
    is_scaled_to,
    owners,
    replicas,
    tier,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

WORKLOAD_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}


def test_kubectl_scale_of_the_tier_scales_its_pods(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 3}}, subresource="scale")
    eventually(is_scaled_to(k8s, 3), "three pods are ready")
    scale = k8s._api.request("GET", k8s.path("InferenceTier", NAME) + "/scale")
    assert scale["status"] == {"replicas": 3, "selector": f"tierwright.dev/tier={NAME}"}


def test_scale_of_the_deployment_by_hand_is_put_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=2))
    k8s.patch("Deployment", NAME, {"spec": {"replicas": 5}}, subresource="scale")
    eventually(lambda: replicas(k8s) == 2, "the Deployment is scaled back")
    holds_for(lambda: replicas(k8s) == 2, "and stays there", seconds=3)


def test_edit_of_the_spec_does_not_touch_replicas(k8s: Kubernetes) -> None:
    """kserve#3768, LLMKube#484: an edit wrote replicas 1, or none, while something else wanted more."""
    apply_ready(k8s, tier(replicas=3))
    k8s.apply(tier(replicas=3, engine={"type": "vllm", "maxModelLen": 4096}))

    def rolled() -> bool:
        live = k8s.must_get("Deployment", NAME)
        assert live["spec"]["replicas"] == 3
        return "4096" in str(live["spec"]["template"])

    eventually(rolled, "the edit reaches the template")
    wait_ready(k8s)
    assert owners(k8s) == {"tierwright-scaler"}, "the children's manager no longer sends replicas"


def test_gitops_tool_that_applies_again_does_not_scale(k8s: Kubernetes) -> None:
    without = tier()
    apply_ready(k8s, without)
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 3}}, subresource="scale")
    eventually(is_scaled_to(k8s, 3), "three pods are ready")
    k8s.apply(without, manager="argocd-controller")
    k8s.apply(without, manager="test-user")
    holds_for(lambda: replicas(k8s) == 3, "applying a manifest without replicas keeps them", seconds=4)


def test_autoscaler_on_the_tier_moves_the_pods_by_its_bounds(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    k8s.create(autoscaler(TIER_TARGET, 3, 5))
    eventually(is_scaled_to(k8s, 3), "the HPA's minimum is reached", deadline_s=90)
    k8s.patch("HorizontalPodAutoscaler", "users-own", {"spec": {"minReplicas": 1, "maxReplicas": 2}})
    eventually(is_scaled_to(k8s, 2), "the HPA's maximum is kept", deadline_s=90)
    assert owners(k8s) == {"tierwright-scaler"}


def test_mode_auto_keeps_the_start_value_within_its_bounds_and_says_so(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(scaling=AUTO))
    assert replicas(k8s) == 2
    active = wait_condition(
        k8s, "ScalingActive", "False", "MetricsUnavailable"
    )  # nothing runs in kwok's pods
    assert "2 replicas kept" in active["message"]
    k8s.patch("Deployment", NAME, {"spec": {"replicas": 4}}, subresource="scale")
    eventually(lambda: replicas(k8s) == 2, "a scale by hand is put back")


def test_change_to_mode_auto_keeps_the_replicas_that_run(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=3))
    k8s.apply(tier(scaling=AUTO))  # replicas go back to their default of 1
    wait_condition(k8s, "ScalingActive", "False", "MetricsUnavailable")
    wait_ready(k8s)
    assert replicas(k8s) == 3


def test_autoscaler_on_the_workload_itself_is_noticed_and_not_fought(k8s: Kubernetes) -> None:
    """aibrix#1661: two autoscalers on one target."""
    apply_ready(k8s, tier(scaling={**AUTO, "minReplicas": 1}))
    k8s.create(autoscaler(WORKLOAD_TARGET, 3, 3))
    active = wait_condition(k8s, "ScalingActive", "False", "Conflict")
    assert "HorizontalPodAutoscaler users-own" in active["message"]
    eventually(lambda: replicas(k8s) == 3, "the other autoscaler has its way", deadline_s=90)
    holds_for(lambda: replicas(k8s) == 3, "and is not fought", seconds=5)
    k8s.apply(tier(scaling={**AUTO, "minReplicas": 1}, engine={"type": "vllm", "maxModelLen": 4096}))
    eventually(lambda: "4096" in str(k8s.must_get("Deployment", NAME)["spec"]["template"]), "an edit arrives")
    assert replicas(k8s) == 3
    wait_one_event(k8s, "Conflict")
    k8s.delete("HorizontalPodAutoscaler", "users-own")
    wait_condition(k8s, "ScalingActive", "False", "MetricsUnavailable")


def test_autoscaler_of_a_dependency_is_noticed_whatever_group_its_maker_is_of(k8s: Kubernetes) -> None:
    """kserve#5607: whatever KEDA's group is called some day, it scales by an HPA of Kubernetes' own, and that is read."""
    apply_ready(k8s, tier(scaling={**AUTO, "minReplicas": 1}))
    maker = {
        "apiVersion": "keda.renamed.example/v9",
        "kind": "ScaledObject",
        "name": "users-own",
        "uid": "0a5ce2b4-7d0e-4a3c-9d1c-0f6c3f6f9a11",
    }
    made = autoscaler(WORKLOAD_TARGET, 3, 3)
    made["metadata"] |= {
        "ownerReferences": [maker],
        "labels": {"app.kubernetes.io/managed-by": "keda-operator"},
    }
    k8s.create(made)
    active = wait_condition(k8s, "ScalingActive", "False", "Conflict")
    assert "HorizontalPodAutoscaler users-own" in active["message"]
    wait_condition(k8s, "Ready", "True")


def test_suspended_tier_has_no_pods_and_comes_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=2))
    k8s.patch("InferenceTier", NAME, {"spec": {"suspend": True}})
    wait_condition(k8s, "Ready", "True", "Suspended")
    eventually(lambda: k8s.list("Pod") == [], "all pods are gone")
    k8s.patch("InferenceTier", NAME, {"spec": {"suspend": False}})
    eventually(is_scaled_to(k8s, 2), "both replicas are back")


def test_suspended_tier_in_mode_auto_starts_again_from_its_start_value(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=3, scaling={**AUTO, "minReplicas": 0}))
    k8s.patch("InferenceTier", NAME, {"spec": {"suspend": True}})
    wait_condition(k8s, "Ready", "True", "Suspended")
    k8s.patch("InferenceTier", NAME, {"spec": {"suspend": False}})
    eventually(is_scaled_to(k8s, 3), "the start value is back")


def test_tier_without_replicas_is_ready_at_zero(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=0))
    assert k8s.condition(NAME, "Ready")["reason"] == "ScaledToZero"
