"""Decides the metadata of children: name, namespace, labels, annotations and the owner that garbage collection follows."""

from collections.abc import Mapping
from typing import Any

from tierwright.api.tier import API_VERSION, KIND, InferenceTier
from tierwright.desired.labels import child_annotations, child_labels


def child_metadata(
    tier: InferenceTier,
    name: str,
    annotations: Mapping[str, str] | None = None,
    *,
    owned: bool = True,
) -> dict[str, Any]:
    """The metadata of one child.

    Args:
        tier: the tier that wants it.
        name: from ``child_name``.
        annotations: more annotations than all children have.
        owned: False for what outlives the tier. A tier without a uid (``render``) owns nothing.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": tier.metadata.namespace,
        "labels": child_labels(tier),
        "annotations": {**child_annotations(tier), **(annotations or {})},
    }
    if owned and tier.metadata.uid:
        metadata["ownerReferences"] = [owner_reference(tier, tier.metadata.uid)]
    return metadata


def owner_reference(tier: InferenceTier, uid: str) -> dict[str, Any]:
    """The reference by which a child goes with the tier, and by which foreground deletion waits for it."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": tier.metadata.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
