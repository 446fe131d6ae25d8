"""An object of a child's name that is not ours: never touched, said so, and the other children are applied all the same."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.live import Object, owner_uid, tier, wait_condition, wait_ready
from tests.support.activity import wait_resyncs
from tests.support.kubernetes import Kubernetes
from tests.support.operator_process import OperatorProcess
from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import Bundle, BundleContext, desired_bundle

pytestmark = pytest.mark.integration

ELSE = {"app": "somebody-elses"}
POD = {
    "metadata": {"labels": ELSE},
    "spec": {"containers": [{"name": "main", "image": "busybox"}], "nodeSelector": {"no": "node"}},
}
SPECS: Mapping[str, Mapping[str, Any]] = {
    "ServiceAccount": {},
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Mi"}},
        }
    },
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": ELSE}}},
    "Service": {"spec": {"selector": ELSE, "ports": [{"port": 80}]}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": ELSE}}},
    "Deployment": {"spec": {"replicas": 1, "selector": {"matchLabels": ELSE}, "template": POD}},
}
"""Per kind, an object as somebody else would have made it."""
USED_BY_PODS = ("ServiceAccount", "PersistentVolumeClaim")
"""Pods would write to it or act as it, so there are none before it is the tier's own."""


def conflicting(number: int) -> Object:
    """A tier of a name and speed of its own."""
    return tier(
        f"tier-{number}",
        speed=f"s{number}",
        cache={"weights": {"size": "1Gi", "storageClassName": "standard", "reclaimPolicy": "Delete"}},
    )


def children_of(manifest: Object, namespace: str) -> list[Object]:
    """The children that this tier wants."""
    metadata = {"name": manifest["metadata"]["name"], "namespace": namespace, "uid": "any"}
    bundle = desired_bundle(
        InferenceTier.model_validate({**manifest, "metadata": metadata}), BundleContext(None)
    )
    assert isinstance(bundle, Bundle), bundle
    return [child.manifest for child in bundle.children]


def test_each_kind_of_child_is_left_alone_when_it_is_somebody_elses(
    k8s: Kubernetes, operator: OperatorProcess
) -> None:
    probe = children_of(conflicting(0), k8s.namespace)
    assert {child["kind"] for child in probe} == set(SPECS), "a kind of child is not tried here"
    cases = [(index, child["kind"], child["metadata"]["name"]) for index, child in enumerate(probe)]
    foreign: dict[tuple[str, str], Object] = {}
    for index, kind, name in cases:
        own = name.replace("tier-0", f"tier-{index}")
        made = {
            "apiVersion": probe[index]["apiVersion"],
            "kind": kind,
            "metadata": {"name": own, "labels": dict(ELSE)},
            **SPECS[kind],
        }
        foreign[kind, own] = k8s.create(made)
        k8s.apply(conflicting(index))
    for index, kind, name in cases:
        own, tier_name = name.replace("tier-0", f"tier-{index}"), f"tier-{index}"
        said = wait_condition(k8s, "Stalled", "True", "Conflict", name=tier_name)["message"]
        assert f"{kind} {own} is not touched" in said
        owner = k8s.must_get("InferenceTier", tier_name)["metadata"]["uid"]
        for child in children_of(conflicting(index), k8s.namespace):
            place = (child["kind"], child["metadata"]["name"])
            held_back = kind in USED_BY_PODS and child["kind"] == "Deployment"
            if place == (kind, own) or held_back:
                continue
            assert owner_uid(k8s, *place) == owner, f"{place} although only {kind} is in conflict"
    wait_resyncs(operator, 2)
    for (kind, own), before in foreign.items():
        now = k8s.must_get(kind, own)
        assert now.get("spec") == before.get("spec") or kind == "PersistentVolumeClaim"
        assert now["metadata"]["labels"] == ELSE
        assert not [
            each["manager"]
            for each in now["metadata"]["managedFields"]
            if each["manager"] in ("tierwright", "tierwright-scaler")
        ], f"{kind} was touched"

    for kind, own in foreign:
        k8s.delete(kind, own)
    for index, _, _ in cases:
        wait_ready(k8s, f"tier-{index}")


@pytest.mark.parametrize("kind", USED_BY_PODS)
@pytest.mark.usefixtures("operator")
def test_pods_do_not_use_what_is_somebody_elses(k8s: Kubernetes, kind: str) -> None:
    """The init container would download onto another's volume; the pods would be another's to a cloud's roles."""
    wanted = conflicting(0)
    (own,) = [each for each in children_of(wanted, k8s.namespace) if each["kind"] == kind]
    name = own["metadata"]["name"]
    k8s.create(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": dict(ELSE)}, **SPECS[kind]}
    )
    k8s.apply(wanted)
    said = wait_condition(k8s, "Ready", "False", "Conflict", name="tier-0")["message"]
    assert f"its pods would use {kind} {name}" in said
    assert k8s.get("PodDisruptionBudget", "tier-0"), "the other children are there"
    assert k8s.list("Pod") == []
    k8s.delete(kind, name)
    wait_ready(k8s, "tier-0")
