"""kubectl, GitOps tools and an HPA on the tier, also together: each finds its number respected."""

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from dev.cluster.api import ApiError
from tests.integration.live import (
    NAME,
    TIER_TARGET,
    Object,
    apply_ready,
    autoscaler,
    is_scaled_to,
    owners,
    replicas,
    tier,
    wait_condition,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

RECOMMEND = {"mode": "Recommend", "objectives": {"timeToFirstToken": "500ms"}}


def kubectl(cluster: "Cluster", k8s: Kubernetes, *arguments: str) -> str:
    """Run kubectl in the test's namespace; its output."""
    command = [str(cluster.kubectl), "--kubeconfig", str(k8s.kubeconfig), "-n", k8s.namespace, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout


def test_kubectl_scale_names_the_tier_by_its_short_name(k8s: Kubernetes, cluster: "Cluster") -> None:
    apply_ready(k8s, tier())
    assert "scaled" in kubectl(cluster, k8s, "scale", "itier", NAME, "--replicas=2")
    eventually(is_scaled_to(k8s, 2), "two pods are ready")
    kubectl(cluster, k8s, "wait", "--for=jsonpath={.status.ready}=2/2", f"itier/{NAME}", "--timeout=30s")
    kubectl(cluster, k8s, "scale", "itier", NAME, "--replicas=0", "--current-replicas=2")
    eventually(is_scaled_to(k8s, 0), "no pod is left")
    kubectl(cluster, k8s, "wait", "--for=condition=Ready", f"itier/{NAME}", "--timeout=30s")


def test_gitops_that_leaves_replicas_out_keeps_the_autoscalers_number(k8s: Kubernetes) -> None:
    """kserve#3768: each re-apply wrote replicas 1 while the autoscaler wanted more, and pods were killed."""
    manifest = tier()
    apply_ready(k8s, manifest)
    k8s.create(autoscaler(TIER_TARGET, 3, 5))
    eventually(is_scaled_to(k8s, 3), "the HPA's minimum is reached", deadline_s=90)
    before = {pod["metadata"]["uid"] for pod in k8s.list("Pod")}
    for manager in ("argocd-controller", "kustomize-controller", "argocd-controller"):
        k8s.apply(manifest, manager=manager)
    holds_for(lambda: replicas(k8s) == 3, "the pods stay", seconds=4)
    assert {pod["metadata"]["uid"] for pod in k8s.list("Pod")} == before
    k8s.apply(tier(engine={"type": "vllm", "maxModelLen": 4096}), manager="argocd-controller")
    wait_ready(k8s)
    assert replicas(k8s) == 3, "an edit by GitOps keeps the number as well"


def test_gitops_that_writes_replicas_is_told_of_the_conflict_and_wins_only_by_force(k8s: Kubernetes) -> None:
    manifest = tier(replicas=1)
    k8s.apply(manifest, manager="argocd-controller")
    wait_ready(k8s)
    k8s.create(autoscaler(TIER_TARGET, 3, 5))
    eventually(is_scaled_to(k8s, 3), "the HPA's minimum is reached", deadline_s=90)
    with pytest.raises(ApiError, match=r"spec\.replicas") as refused:
        k8s.apply(manifest, manager="argocd-controller", force=False)
    assert refused.value.status == 409
    assert replicas(k8s) == 3
    k8s.apply(manifest, manager="argocd-controller")
    eventually(is_scaled_to(k8s, 3), "the HPA brings its number back", deadline_s=90)
    assert owners(k8s) == {"tierwright-scaler"}


def test_autoscaler_moves_a_tier_in_mode_recommend_too(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(scaling=RECOMMEND))
    assert replicas(k8s) == 1
    k8s.create(autoscaler(TIER_TARGET, 2, 4))
    eventually(is_scaled_to(k8s, 2), "the HPA's minimum is reached", deadline_s=90)
    assert k8s.condition(NAME, "ScalingActive")["reason"] == "Recommending"
    status: Any = k8s.must_get("HorizontalPodAutoscaler", "users-own")["status"]
    able = {each["type"]: each["status"] for each in status["conditions"]}
    assert able["AbleToScale"] == "True", status


def test_slow_start_is_told_as_such_and_ends_well(k8s: Kubernetes) -> None:
    slow: Object = {"metadata": {"annotations": {"kwok.tierwright.dev/startup-seconds": "4"}}}
    k8s.apply(tier(podTemplate=slow))
    said = wait_condition(k8s, "Ready", "False", "Starting")["message"]
    assert "0 of 1 replicas are ready" in said
    wait_condition(k8s, "Stalled", "False")
    wait_ready(k8s)
    assert k8s.must_get("InferenceTier", NAME)["status"]["startup"]["loadingSeconds"] >= 3
