"""What a tier refers to comes late, or goes first: the tier recovers by itself, and its deletion never waits for it.

LLMKube PR#15: a dependency turned ready, nothing watched it, and the dependent stayed Pending for ever.
"""

from typing import Any

import pytest

from tests.integration.conftest import NewPool
from tests.integration.live import (
    NAME,
    Object,
    behaving,
    tier,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

WITH_TOKEN = {
    "name": "meta/llama",
    "source": "hf://meta-llama/Llama@main",
    "tokenSecretRef": {"name": "hf", "key": "token"},
}


def hardware(pool: str, **fields: Any) -> Object:
    """The usual hardware in another pool."""
    matching = {"matchLabels": {"karpenter.sh/nodepool": pool}}
    return {**tier()["spec"]["hardware"], "nodePool": matching, **fields}


def without_its_secret(pod: Object) -> Object:
    """The pod's status as a kubelet reports it that does not find the Secret of the first init container."""
    states = pod["status"]["initContainerStatuses"]
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}
    return {"status": {"initContainerStatuses": [{**states[0], "state": {"waiting": waiting}}, *states[1:]]}}


def test_missing_secret_is_named_and_the_tier_starts_when_it_is_there(k8s: Kubernetes) -> None:
    k8s.apply(tier(model=WITH_TOKEN, podTemplate=behaving("never-initialized")))

    def started() -> Object:
        pods = k8s.list("Pod")
        assert len(pods) == 1, pods
        assert pods[0]["status"].get("initContainerStatuses"), pods[0]["status"]
        return pods[0]

    pod = eventually(started, "the pod is on its node")
    environment = {each["name"]: each for each in pod["spec"]["initContainers"][0]["env"]}
    assert environment["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hf", "key": "token"}
    name = pod["metadata"]["name"]
    k8s.patch("Pod", name, without_its_secret(pod), subresource="status")
    said = wait_condition(k8s, "Ready", "False", "SecretMissing")["message"]
    assert 'secret "hf" not found' in said
    wait_one_event(k8s, "SecretMissing")

    k8s.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}, "stringData": {"token": "t"}}
    )
    # From here the kubelet tries the container again by itself; the tier has to notice the pod alone.
    k8s.patch("Pod", name, {"metadata": {"annotations": {"kwok.tierwright.dev/behaviour": None}}})
    wait_ready(k8s)
    assert [each["metadata"]["name"] for each in k8s.list("Pod")] == [name], "no new pod was needed"


def test_empty_node_pool_is_named_and_the_tier_starts_when_a_node_joins(
    k8s: Kubernetes, pool_name: str, new_pool: NewPool
) -> None:
    k8s.apply(tier(hardware=hardware(pool_name)))
    wait_condition(k8s, "Ready", "False", "NodePoolEmpty")
    assert "didn't match" in wait_condition(k8s, "Scheduled", "False", "NodePoolEmpty")["message"]
    new_pool(pool_name, 1)
    wait_ready(k8s)
    assert k8s.condition(NAME, "Scheduled")["status"] == "True"


def test_node_with_too_few_devices_is_told_in_the_schedulers_words_and_replaced(
    k8s: Kubernetes, pool_name: str, new_pool: NewPool
) -> None:
    new_pool(pool_name, 1)
    k8s.apply(tier(hardware=hardware(pool_name, count=2), engine={"type": "vllm", "tensorParallel": 2}))
    said = wait_condition(k8s, "Scheduled", "False", "Unschedulable")["message"]
    assert "Insufficient nvidia.com/gpu" in said
    assert "Insufficient nvidia.com/gpu" in wait_condition(k8s, "Ready", "False", "Unschedulable")["message"]
    k8s.patch("InferenceTier", NAME, {"spec": {"hardware": {"count": 1}, "engine": {"tensorParallel": 1}}})
    wait_ready(k8s)


def test_missing_storage_class_is_named_and_the_tier_starts_when_it_is_there(
    k8s: Kubernetes, pool_name: str, admin: Kubernetes
) -> None:
    weights = {"size": "1Gi", "storageClassName": pool_name, "reclaimPolicy": "Delete"}
    k8s.apply(tier(cache={"weights": weights}))
    wait_condition(k8s, "Ready", "False", "StorageClassMissing")
    admin.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": pool_name},
            "provisioner": "tierwright.dev/hostpath",
            "volumeBindingMode": "Immediate",
        }
    )
    try:
        wait_ready(k8s)
        assert k8s.condition(NAME, "Scheduled")["status"] == "True"
        assert "not found" not in k8s.condition(NAME, "Ready")["message"], "an old Event is history"
    finally:
        admin.delete("StorageClass", pool_name)


def test_missing_claim_of_the_model_is_named_and_the_tier_starts_when_it_is_there(k8s: Kubernetes) -> None:
    k8s.apply(tier(model={"name": "meta/llama", "source": "pvc://models/llama"}))
    wait_condition(k8s, "Ready", "False", "VolumePending")
    k8s.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "shared",
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )
    wait_ready(k8s)


def test_missing_service_account_is_named_and_the_tier_starts_when_it_is_there(k8s: Kubernetes) -> None:
    k8s.apply(tier(pod={"serviceAccount": {"name": "mine"}}))
    said = wait_condition(k8s, "Ready", "False", "Forbidden")["message"]
    assert 'serviceaccount "mine" not found' in said
    k8s.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}})
    wait_ready(k8s)


def test_tier_is_deleted_although_all_that_it_refers_to_is_gone(k8s: Kubernetes) -> None:
    """kserve#6154: a look-up failed before the deletion was looked at, and the object was Terminating for ever."""
    k8s.apply(
        tier(
            model={"name": "meta/llama", "source": "pvc://no-such/llama"},
            pod={"serviceAccount": {"name": "no-such"}, "imagePullSecrets": [{"name": "no-such"}]},
            cache={"compile": {"size": "1Gi", "storageClassName": "no-such", "sharing": "Shared"}},
        )
    )
    wait_condition(k8s, "Ready", "False")
    k8s.delete("InferenceTier", NAME, propagation="Foreground")
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone", deadline_s=20)
    eventually(lambda: k8s.list("PersistentVolumeClaim") == [], "and its claim")
