"""Cache volumes: grown in place, kept or deleted as asked, replaced when they must be, and never fought over."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.live import NAME, Object, apply_ready, tier, wait_condition, wait_ready
from tests.support.activity import tries_allowed, wait_resyncs, writes, writes_at_rest
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]


def weights(size: str = "1Gi", **fields: Any) -> Object:
    """A cache of weights on a class that provisions at once and can grow."""
    return {"weights": {"size": size, "storageClassName": "shared", **fields}}


def claim(k8s: Kubernetes) -> Object:
    """The tier's one claim."""
    claims = k8s.list("PersistentVolumeClaim", f"tierwright.dev/tier={NAME}")
    assert len(claims) == 1, [each["metadata"]["name"] for each in claims]
    return claims[0]


def mounted(k8s: Kubernetes) -> set[str]:
    """The claims that the pod template mounts."""
    volumes: list[Object] = k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"]["volumes"]
    return {
        each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")
    }


def pods(k8s: Kubernetes) -> set[str]:
    """The uids of all pods."""
    return {pod["metadata"]["uid"] for pod in k8s.list("Pod")}


def rolled(k8s: Kubernetes) -> bool:
    """Whether all pods are of the Deployment's present template, and ready."""
    live = k8s.must_get("Deployment", NAME)
    status, wanted = live["status"], live["spec"]["replicas"]
    assert status["observedGeneration"] == live["metadata"]["generation"]
    return bool(status["replicas"] == status["updatedReplicas"] == status["readyReplicas"] == wanted)


def test_retained_volume_is_adopted_with_its_data_and_grows_in_place(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(cache=weights()))
    first = claim(k8s)
    volume = first["spec"]["volumeName"]
    k8s.delete("InferenceTier", NAME, propagation="Foreground")
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone")
    apply_ready(k8s, tier(cache=weights()))
    assert (claim(k8s)["metadata"]["uid"], claim(k8s)["spec"]["volumeName"]) == (
        first["metadata"]["uid"],
        volume,
    )

    before = pods(k8s)
    k8s.apply(tier(cache=weights("3Gi")))

    def grown() -> bool:
        status: Object = claim(k8s)["status"]
        return bool(status["capacity"]["storage"] == "3Gi")

    eventually(grown, "the volume has grown")
    wait_ready(k8s)
    assert claim(k8s)["metadata"]["uid"] == first["metadata"]["uid"]
    assert pods(k8s) == before, "a larger volume replaces no pod"


def test_volume_whose_class_cannot_grow_says_so_and_the_tier_goes_on_serving(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", admin: Kubernetes
) -> None:
    name = f"fixed-{k8s.namespace}"
    admin.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "tierwright.dev/hostpath",
        }
    )
    try:
        apply_ready(k8s, tier(cache=weights(storageClassName=name)))
        k8s.apply(tier(cache=weights("2Gi", storageClassName=name)))
        said = wait_condition(k8s, "Stalled", "True")["message"]
        assert claim(k8s)["metadata"]["name"] in said
        assert "resize" in said
        assert k8s.condition(NAME, "Ready")["status"] == "True"
        k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 1, "engine": {"maxModelLen": 4096}}})
        eventually(
            lambda: "4096" in str(k8s.must_get("Deployment", NAME)["spec"]["template"]), "other edits arrive"
        )
        eventually(lambda: rolled(k8s), "the pods are those of the last edit")
        wait_condition(k8s, "Ready", "True")
        so_far = writes_at_rest(cluster.audit_log, operator, k8s.namespace, but_for="persistentvolumeclaims/")
        before, allowed = len(so_far), tries_allowed()
        wait_resyncs(operator, 3)
        refused = writes(cluster.audit_log, operator.user, k8s.namespace)[before:]
        assert all("persistentvolumeclaims" in each for each in refused), refused
        assert len(refused) <= allowed(), "at most one try per resync"
    finally:
        admin.delete("StorageClass", name)


def test_volume_that_is_the_tiers_own_goes_with_it_and_the_retained_one_stays(k8s: Kubernetes) -> None:
    """kubeai#406: the weights went with the model, to the user's surprise; here each volume says what it does."""
    caches = {
        **weights(reclaimPolicy="Retain"),
        "compile": {"size": "1Gi", "storageClassName": "shared", "sharing": "Shared"},
    }
    apply_ready(k8s, tier(cache=caches))
    kept = {
        each["metadata"]["name"]: "weights" in each["metadata"]["name"]
        for each in k8s.list("PersistentVolumeClaim")
    }
    assert sorted(kept.values()) == [False, True]
    k8s.delete("InferenceTier", NAME)
    eventually(
        lambda: len(k8s.list("PersistentVolumeClaim")) == 1, "the compile cache is gone", deadline_s=90
    )
    assert kept[claim(k8s)["metadata"]["name"]]


def test_class_of_a_volume_that_is_not_retained_can_change(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(cache=weights(reclaimPolicy="Delete")))
    old = claim(k8s)["metadata"]["name"]
    assert mounted(k8s) == {old}
    k8s.apply(tier(cache=weights(reclaimPolicy="Delete", storageClassName="standard")))

    def replaced() -> bool:
        return claim(k8s)["metadata"]["name"] != old and mounted(k8s) == {claim(k8s)["metadata"]["name"]}

    eventually(replaced, "the pods mount a claim of the new class, and the old one is gone", deadline_s=90)
    wait_ready(k8s)
    assert claim(k8s)["spec"]["storageClassName"] == "standard"


def test_claim_deleted_by_hand_is_waited_for_and_made_anew(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    """modelplane#140: a pod pins the claim, which is Terminating until that pod ends; the tier says so and waits."""
    apply_ready(k8s, tier(cache=weights(reclaimPolicy="Delete")))
    first = claim(k8s)
    name = first["metadata"]["name"]
    k8s.delete("PersistentVolumeClaim", name)
    said = wait_condition(k8s, "Reconciling", "True", "Applying")["message"]
    assert name in said
    assert k8s.condition(NAME, "Ready")["status"] == "True", "its pod still serves"
    before = len(writes_at_rest(cluster.audit_log, operator, k8s.namespace))
    wait_resyncs(operator, 2)
    assert writes(cluster.audit_log, operator.user, k8s.namespace)[before:] == []

    for pod in k8s.list("Pod"):
        k8s.delete("Pod", pod["metadata"]["name"])

    def anew() -> bool:
        found = claim(k8s)
        return (
            found["metadata"]["uid"] != first["metadata"]["uid"]
            and "deletionTimestamp" not in found["metadata"]
        )

    eventually(anew, "a new claim takes its place", deadline_s=90)
    wait_ready(k8s)
