"""Children come back, are adopted or are left alone, whatever a person, a collector or another controller does."""

import pytest

from tests.integration.live import (
    NAME,
    Object,
    apply_ready,
    owner_uid,
    replicas,
    tier,
    uid,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

WEIGHTS = {"weights": {"size": "1Gi", "storageClassName": "none-such", "reclaimPolicy": "Retain"}}
"""A volume that nobody provisions: its claim is what these tests look at."""

CHILDREN = (
    ("ServiceAccount", NAME),
    ("NetworkPolicy", NAME),
    ("Service", NAME),
    ("Service", f"{NAME}-headless"),
    ("PodDisruptionBudget", NAME),
    ("Deployment", NAME),
)


def test_every_child_deleted_by_hand_comes_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    before = {child: uid(k8s, *child) for child in CHILDREN}
    for kind, name in CHILDREN:
        k8s.delete(kind, name)
    for child, old in before.items():
        eventually(lambda child=child, old=old: uid(k8s, *child) != old, f"{child} is made anew")  # type: ignore[misc]
    wait_ready(k8s)


def test_a_deployment_that_was_paused_by_hand_takes_the_next_edit_of_the_tier(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    k8s.patch("Deployment", NAME, {"spec": {"paused": True}})
    edited = tier(engine={"type": "vllm", "batching": {"maxSequences": 7}})
    k8s.apply(edited)
    eventually(lambda: not k8s.must_get("Deployment", NAME)["spec"].get("paused"), "it goes on")
    eventually(lambda: k8s.must_get("Deployment", NAME)["status"]["observedGeneration"] > 1, "it was seen")
    wait_ready(k8s)


def test_a_field_by_hand_that_shuts_ours_out_is_taken_away(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(rollout={"strategy": "Recreate"}))
    k8s.patch("PodDisruptionBudget", NAME, {"spec": {"maxUnavailable": None, "minAvailable": 1}})
    k8s.patch("Deployment", NAME, {"spec": {"strategy": {"type": "RollingUpdate"}}})

    def restored() -> bool:
        budget = k8s.must_get("PodDisruptionBudget", NAME)["spec"]
        strategy = k8s.must_get("Deployment", NAME)["spec"]["strategy"]
        return (
            "minAvailable" not in budget
            and budget["maxUnavailable"] == 1
            and strategy == {"type": "Recreate"}
        )

    eventually(restored, "both are as they were")
    wait_ready(k8s)


def test_fields_that_were_edited_or_removed_by_hand_come_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    service = k8s.must_get("Service", NAME)
    k8s.patch("Service", NAME, {"spec": {"selector": {"app": "hijacked"}}})
    k8s.patch("ServiceAccount", NAME, {"metadata": {"labels": {"tierwright.dev/model": None}}})
    k8s.patch("Deployment", NAME, {"spec": {"progressDeadlineSeconds": 7}})

    def restored() -> bool:
        live = k8s.must_get("Service", NAME)["spec"]["selector"]
        account = k8s.must_get("ServiceAccount", NAME)["metadata"]["labels"]
        deadline = k8s.must_get("Deployment", NAME)["spec"]["progressDeadlineSeconds"]
        return bool(
            live == service["spec"]["selector"] and "tierwright.dev/model" in account and deadline != 7
        )

    eventually(restored, "all edits are undone")


def test_child_that_lost_the_label_is_labelled_again(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    k8s.patch("Service", NAME, {"metadata": {"labels": {"tierwright.dev/tier": None}}})

    def labelled() -> bool:
        labels: Object = k8s.must_get("Service", NAME)["metadata"]["labels"]
        return labels.get("tierwright.dev/tier") == NAME

    eventually(labelled, "the label is back")


def test_field_that_the_spec_no_longer_holds_goes(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(pod={"priorityClassName": "system-node-critical"}))

    def priority() -> object:
        return k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"].get("priorityClassName")

    assert priority() == "system-node-critical"
    k8s.apply(tier())
    eventually(lambda: priority() is None, "the priority class is gone")


def test_child_that_is_no_longer_wanted_is_pruned(k8s: Kubernetes) -> None:
    k8s.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}})
    apply_ready(k8s, tier())
    uid(k8s, "ServiceAccount")
    k8s.apply(tier(pod={"serviceAccount": {"name": "mine"}}))
    eventually(lambda: k8s.get("ServiceAccount", NAME) is None, "the tier's own ServiceAccount is pruned")
    uid(k8s, "ServiceAccount", "mine")


def test_object_of_the_same_name_that_is_not_ours_is_never_touched(k8s: Kubernetes) -> None:
    foreign: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "labels": {"app": "somebody-elses"}},
        "spec": {"selector": {"app": "somebody-elses"}, "ports": [{"port": 80}]},
    }
    version = k8s.create(foreign)["metadata"]["resourceVersion"]
    k8s.apply(tier())
    stalled = wait_condition(k8s, "Stalled", "True", "Conflict")
    assert f"Service {NAME} is not touched" in stalled["message"]
    # All other children are there, and the tier serves: one conflict does not stop the rest.
    wait_condition(k8s, "Ready", "True")
    assert k8s.must_get("Service", NAME)["metadata"]["resourceVersion"] == version
    wait_one_event(k8s, "Conflict")
    k8s.delete("Service", NAME)
    wait_condition(k8s, "Stalled", "False")
    assert owner_uid(k8s, "Service") == uid(k8s, "InferenceTier")


def test_object_that_another_controller_owns_is_never_touched(k8s: Kubernetes) -> None:
    other = k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "other",
        "uid": other["metadata"]["uid"],
        "controller": True,
    }
    labels = {"tierwright.dev/tier": NAME, "app.kubernetes.io/managed-by": "tierwright"}
    k8s.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "labels": labels, "ownerReferences": [reference]},
        }
    )
    k8s.apply(tier())
    stalled = wait_condition(k8s, "Stalled", "True", "Conflict")
    assert "controlled by ConfigMap other" in stalled["message"]
    assert owner_uid(k8s, "ServiceAccount") == other["metadata"]["uid"]


def test_orphaned_children_are_adopted_by_the_tier_that_comes_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    before = {child: uid(k8s, *child) for child in CHILDREN}
    pods = {pod["metadata"]["uid"] for pod in k8s.list("Pod")}
    k8s.delete("InferenceTier", NAME, propagation="Orphan")
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone")
    for child in CHILDREN:
        eventually(lambda child=child: owner_uid(k8s, *child) == "", f"{child} is an orphan")  # type: ignore[misc]
    apply_ready(k8s, tier())
    owner = uid(k8s, "InferenceTier")
    for child, old in before.items():
        assert (uid(k8s, *child), owner_uid(k8s, *child)) == (old, owner)
    assert {pod["metadata"]["uid"] for pod in k8s.list("Pod")} == pods, "no pod was restarted"


def test_children_of_a_backup_with_the_old_tiers_uid_are_replaced(k8s: Kubernetes) -> None:
    """A restore brings children whose owner does not exist; the collector takes them, and the tier makes its own."""
    reference = {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "name": NAME,
        "uid": "00000000-0000-4000-8000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {"tierwright.dev/tier": NAME, "app.kubernetes.io/managed-by": "tierwright"}
    restored: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "labels": labels, "ownerReferences": [reference]},
    }
    old = k8s.create(restored)["metadata"]["uid"]
    apply_ready(k8s, tier())
    assert uid(k8s, "ServiceAccount") != old
    assert owner_uid(k8s, "ServiceAccount") == uid(k8s, "InferenceTier")


def test_tier_recreated_at_once_under_the_same_name_gets_its_own_children(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=3))
    k8s.apply(tier(replicas=3, engine={"type": "vllm", "maxModelLen": 4096}))  # deleted while it rolls
    old = uid(k8s, "InferenceTier")
    k8s.delete("InferenceTier", NAME)
    k8s.apply(tier(replicas=1))
    new = uid(k8s, "InferenceTier")
    assert new != old
    for child in CHILDREN:
        eventually(lambda child=child: owner_uid(k8s, *child) == new, f"{child} belongs to the new tier")  # type: ignore[misc]
    wait_ready(k8s)
    assert k8s.must_get("InferenceTier", NAME)["status"]["ready"] == "1/1"


def test_foreground_deletion_does_not_bring_children_back(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier(replicas=2))
    k8s.patch("Service", NAME, {"metadata": {"finalizers": ["example.com/hold"]}})
    k8s.delete("InferenceTier", NAME, propagation="Foreground")

    def collected() -> bool:
        gone = [child for child in CHILDREN if child != ("Service", NAME)]
        return all(k8s.get(*child) is None for child in gone)

    eventually(collected, "all children but the held one are collected")
    wait_condition(k8s, "Ready", "False", "Deleting")
    holds_for(collected, "no child comes back while the tier is being deleted", seconds=5)
    k8s.patch("Service", NAME, {"metadata": {"finalizers": None}})
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone")

    def no_pods() -> bool:
        return all(pod["metadata"].get("deletionTimestamp") for pod in k8s.list("Pod"))

    eventually(no_pods, "its pods go")


def test_retained_volume_outlives_the_tier_and_is_adopted(k8s: Kubernetes) -> None:
    k8s.apply(tier(cache=WEIGHTS))

    def claim() -> Object:
        claims = k8s.list("PersistentVolumeClaim")
        assert len(claims) == 1, claims
        return claims[0]

    first = eventually(claim, "the claim is there")
    assert not first["metadata"].get("ownerReferences")
    assert first["metadata"].get("finalizers") == ["kubernetes.io/pvc-protection"]
    k8s.delete("InferenceTier", NAME, propagation="Foreground")
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone")
    eventually(lambda: k8s.get("Deployment", NAME) is None, "the collector has taken the Deployment")
    assert claim()["metadata"]["uid"] == first["metadata"]["uid"]
    k8s.apply(tier(cache=WEIGHTS))
    eventually(lambda: k8s.get("Deployment", NAME), "the Deployment is back")
    assert claim()["metadata"]["uid"] == first["metadata"]["uid"]
    assert "deletionTimestamp" not in claim()["metadata"]


def test_volume_of_a_missing_storage_class_does_not_hold_up_deletion(k8s: Kubernetes) -> None:
    k8s.apply(tier(cache={"weights": {**WEIGHTS["weights"], "reclaimPolicy": "Delete"}}))
    wait_condition(k8s, "Ready", "False", "StorageClassMissing")
    k8s.delete("InferenceTier", NAME, propagation="Foreground")
    eventually(lambda: k8s.get("InferenceTier", NAME) is None, "the tier is gone")
    eventually(lambda: k8s.list("PersistentVolumeClaim") == [], "its volume is gone")


def test_paused_tier_is_left_alone_until_it_is_resumed(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier())
    k8s.patch("InferenceTier", NAME, {"metadata": {"annotations": {"tierwright.dev/paused": "true"}}})
    wait_condition(k8s, "Reconciling", "False", "Paused")
    k8s.patch("Service", NAME, {"spec": {"selector": {"app": "debugging"}}})
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 3}})

    def untouched() -> bool:
        selector: Object = k8s.must_get("Service", NAME)["spec"]["selector"]
        return selector.get("app") == "debugging" and replicas(k8s) == 1

    holds_for(untouched, "nothing is applied while paused", seconds=5)
    k8s.patch("InferenceTier", NAME, {"metadata": {"annotations": {"tierwright.dev/paused": None}}})
    eventually(lambda: not untouched(), "the tier is reconciled again")
    wait_ready(k8s)
