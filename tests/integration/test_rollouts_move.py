"""Rollouts move where there is no spare device and where the old pods are broken; nothing else rolls pods."""

from typing import Any

import pytest

from dev.cluster.api import ApiError
from tests.integration.conftest import NewPool
from tests.integration.live import (
    NAME,
    Object,
    apply_ready,
    behaving,
    tier,
    wait_condition,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

CRASHES = {"kwok.tierwright.dev/backoff-seconds": "1"}


def in_pool(pool: str, count: int, **fields: Any) -> Object:
    """A tier of so many pods with a GPU each in this pool."""
    hardware = {**tier()["spec"]["hardware"], "nodePool": {"matchLabels": {"karpenter.sh/nodepool": pool}}}
    return tier(hardware=hardware, replicas=count, **fields)


def length(tokens: int) -> Object:
    """An engine with this context length."""
    return {"type": "vllm", "maxModelLen": tokens}


def live_pods(k8s: Kubernetes) -> list[Object]:
    """Pods that are not being deleted."""
    return [pod for pod in k8s.list("Pod") if not pod["metadata"].get("deletionTimestamp")]


def uids(k8s: Kubernetes) -> set[str]:
    """Of the live pods."""
    return {pod["metadata"]["uid"] for pod in live_pods(k8s)}


def all_run_with(k8s: Kubernetes, words: str, count: int) -> bool:
    """Whether there are so many pods, and each was made from a template that holds these words."""
    pods = live_pods(k8s)
    return len(pods) == count and all(words in str(pod["spec"]["containers"]) for pod in pods)


def test_full_pool_rolls_without_a_spare_device(k8s: Kubernetes, pool_name: str, new_pool: NewPool) -> None:
    """airunway#400: surge 1 and unavailable 0 by default, so that the new pod waited for the old one for ever."""
    new_pool(pool_name, 2)
    apply_ready(k8s, in_pool(pool_name, 2))
    k8s.apply(in_pool(pool_name, 2, engine=length(4096)))
    eventually(lambda: all_run_with(k8s, "4096", 2), "both pods are replaced")
    wait_ready(k8s)
    assert k8s.must_get("InferenceTier", NAME)["status"]["ready"] == "2/2"


def test_single_replica_on_a_full_pool_rolls(k8s: Kubernetes, pool_name: str, new_pool: NewPool) -> None:
    new_pool(pool_name, 1)
    apply_ready(k8s, in_pool(pool_name, 1))
    k8s.apply(in_pool(pool_name, 1, engine=length(4096)))
    eventually(lambda: all_run_with(k8s, "4096", 1), "the pod is replaced")
    wait_ready(k8s)


@pytest.mark.parametrize("broken", ["crash-loop", "image-pull-failure", "never-ready"])
def test_rollout_moves_although_all_old_pods_are_broken(
    k8s: Kubernetes, pool_name: str, new_pool: NewPool, broken: str
) -> None:
    """LLMKube#1250: a rollout that waits for healthy or idle pods waited for a crash loop for ever."""
    new_pool(pool_name, 3)
    k8s.apply(in_pool(pool_name, 3, podTemplate=behaving(broken, **CRASHES)))
    eventually(lambda: len(live_pods(k8s)) == 3, "the broken pods are there")
    wait_condition(k8s, "Ready", "False")
    k8s.apply(in_pool(pool_name, 3, engine=length(4096)))
    eventually(lambda: all_run_with(k8s, "4096", 3), "all broken pods are replaced")
    wait_ready(k8s)


def test_broken_new_pods_do_not_take_the_serving_ones_away_and_the_former_spec_brings_all_back(
    k8s: Kubernetes, pool_name: str, new_pool: NewPool
) -> None:
    new_pool(pool_name, 3)
    apply_ready(k8s, in_pool(pool_name, 3, scaling={"minReplicas": 2}))
    k8s.apply(
        in_pool(pool_name, 3, scaling={"minReplicas": 2}, podTemplate=behaving("crash-loop", **CRASHES))
    )
    said = wait_condition(k8s, "Reconciling", "True", "EngineCrashed")["message"]
    assert "exit code 1" in said
    ready = wait_condition(k8s, "Ready", "True", "Serving")
    assert "2 of 3 replicas are ready" in ready["message"]
    holds_for(lambda: k8s.must_get("InferenceTier", NAME)["status"]["readyReplicas"] == 2, "two go on", 3)
    k8s.apply(in_pool(pool_name, 3, scaling={"minReplicas": 2}))
    wait_ready(k8s)
    assert k8s.must_get("InferenceTier", NAME)["status"]["ready"] == "3/3"


def test_edit_of_the_model_source_reaches_the_pods_and_no_selector_stands_in_the_way(k8s: Kubernetes) -> None:
    """LLMKube#301: the model reference was in the selector, so that its edit was refused for ever, in silence."""
    apply_ready(k8s, tier())
    selector = k8s.must_get("Deployment", NAME)["spec"]["selector"]
    k8s.apply(tier(model={"name": "meta/llama", "source": "hf://meta-llama/Llama@v2"}))
    eventually(lambda: "@v2" in str(live_pods(k8s)) or "v2" in str(live_pods(k8s)), "the edit arrives")
    wait_ready(k8s)
    assert k8s.must_get("Deployment", NAME)["spec"]["selector"] == selector


def test_restart_asked_for_by_a_person_rolls_once_and_is_not_undone(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    before = uids(k8s)
    stamp = {"kubectl.kubernetes.io/restartedAt": "2026-11-30T12:00:00Z"}
    k8s.patch("Deployment", NAME, {"spec": {"template": {"metadata": {"annotations": stamp}}}})
    eventually(lambda: len(uids(k8s) - before) == 1, "the pod is replaced")
    wait_ready(k8s)
    after = uids(k8s)
    assert not after & before
    holds_for(lambda: uids(k8s) == after, "and not once more", seconds=4)
    assert len(k8s.list("ReplicaSet")) == 2


def test_more_replicas_replace_no_pod(k8s: Kubernetes) -> None:
    """kserve#5527: a scale-out changed an annotation on the template, so that the whole Deployment rolled again."""
    apply_ready(k8s, tier())
    before = uids(k8s)
    template = k8s.must_get("Deployment", NAME)["spec"]["template"]
    k8s.apply(tier(replicas=3))
    eventually(lambda: len(uids(k8s)) == 3, "there are three pods")
    wait_ready(k8s)
    assert before <= uids(k8s)
    assert k8s.must_get("Deployment", NAME)["spec"]["template"] == template
    assert len(k8s.list("ReplicaSet")) == 1


def evicted(k8s: Kubernetes, pod: str) -> bool:
    """Whether an eviction, as `kubectl drain` asks for it, is allowed."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    try:
        k8s._api.request("POST", f"{k8s.path('Pod', pod)}/eviction", body)
    except ApiError as error:
        if error.status != 429:
            raise
        return False
    return True


def test_drain_may_take_the_only_pod_and_any_broken_one(k8s: Kubernetes) -> None:
    """A budget of minAvailable 1 would block the drain of a node with the only replica for ever."""
    apply_ready(k8s, tier())

    def may_go() -> bool:
        return bool(k8s.must_get("PodDisruptionBudget", NAME)["status"]["disruptionsAllowed"])

    eventually(may_go, "the budget allows one")
    assert evicted(k8s, live_pods(k8s)[0]["metadata"]["name"])
    wait_ready(k8s)
    k8s.apply(tier(podTemplate=behaving("never-ready")))
    wait_condition(k8s, "Ready", "False")
    eventually(lambda: not may_go(), "the budget counts no healthy pod")
    assert eventually(lambda: evicted(k8s, live_pods(k8s)[0]["metadata"]["name"]), "a broken pod may go")
