"""What the volume provisioner decides, given what the API shows."""

from pathlib import Path
from typing import Any

import pytest

from dev.cluster.volumes.claims import (
    PROVISIONER,
    Action,
    Create,
    Delete,
    Grow,
    decide,
    quantity,
    storage_classes,
)

ROOT = Path("/volumes")
Object = dict[str, Any]


def claim(storage_class: str, phase: str = "Pending", node: str = "", asked: str = PROVISIONER) -> Object:
    annotations = {"volume.kubernetes.io/storage-provisioner": asked} if asked else {}
    if node:
        annotations["volume.kubernetes.io/selected-node"] = node
    return {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": phase},
    }


def volume(phase: str = "Bound", policy: str = "Delete", by: str = PROVISIONER) -> Object:
    return {
        "metadata": {"name": "pvc-u", "annotations": {"pv.kubernetes.io/provisioned-by": by}},
        "spec": {"persistentVolumeReclaimPolicy": policy},
        "status": {"phase": phase},
    }


def decided(claims: list[Object], volumes: list[Object] | None = None) -> list[Action]:
    return decide(storage_classes(), claims, volumes or [], ROOT)


def test_a_claim_that_waits_for_its_first_consumer_gets_nothing_until_a_node_is_selected() -> None:
    assert decided([claim("standard")]) == []


def test_a_standard_volume_is_pinned_to_the_selected_node_and_reserved_for_its_claim() -> None:
    (action,) = decided([claim("standard", node="fast-1")])
    assert isinstance(action, Create)
    assert action.folder == ROOT / "pvc-u"
    spec = action.volume["spec"]
    terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["fast-1"]
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["name"], spec["claimRef"]["uid"]) == (
        "ns",
        "c",
        "u",
    )
    assert spec["capacity"] == {"storage": "1Gi"}


def test_a_shared_volume_is_made_at_once_and_every_node_may_mount_it() -> None:
    (action,) = decided([claim("shared")])
    assert isinstance(action, Create)
    assert "nodeAffinity" not in action.volume["spec"]


@pytest.mark.parametrize(
    "other",
    [claim("elsewhere"), claim("shared", asked=""), claim("shared", asked="other/driver"), claim("")],
    ids=["unknown class", "not our turn", "another provisioner", "no class"],
)
def test_claims_that_are_not_ours_are_left_alone(other: Object) -> None:
    assert decided([other]) == []


def test_a_volume_is_not_made_twice_nor_for_a_claim_that_is_being_deleted() -> None:
    assert decided([claim("shared")], [volume()]) == []
    going = claim("shared")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decided([going]) == []


def test_a_bound_claim_that_asks_for_more_grows_and_one_that_asks_for_the_same_does_not() -> None:
    bound = claim("shared", phase="Bound")
    bound["spec"]["volumeName"] = "pvc-u"
    bound["status"]["capacity"] = {"storage": "1024Mi"}
    assert decided([bound], [volume()]) == []
    bound["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert decided([bound], [volume()]) == [Grow("pvc-u", "ns", "c", "2Gi")]


def test_a_released_volume_goes_only_when_it_is_ours_and_its_policy_is_delete() -> None:
    assert decided([], [volume("Released")]) == [Delete(ROOT / "pvc-u", "pvc-u")]
    assert decided([], [volume("Released", policy="Retain")]) == []
    assert decided([], [volume("Released", by="somebody/else")]) == []
    assert decided([], [volume("Bound")]) == []


def test_both_classes_can_grow_and_exactly_one_is_the_default() -> None:
    classes = storage_classes()
    assert all(each["allowVolumeExpansion"] for each in classes)
    defaults = [each["metadata"]["name"] for each in classes if each["metadata"]["annotations"]]
    assert defaults == ["standard"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20Gi", 20 * 2**30),
        ("1G", 10**9),
        ("1.5Ki", 1536),
        ("100", 100),
        ("1e3", 1000),
        ("5k", 5000),
        ("2E", 2 * 10**18),
        ("1500m", 1.5),
    ],
)
def test_quantities_of_bytes_are_compared_by_value(text: str, value: float) -> None:
    assert quantity(text) == value


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity("lots")
