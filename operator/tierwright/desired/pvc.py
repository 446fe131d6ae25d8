"""Decides the tier's own volumes: claims for shared caches, templates for volumes that live with a pod, emptyDirs else."""

from typing import Any

from tierwright.api.cache import CompileCache, WeightsCache
from tierwright.api.tier import InferenceTier
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name, short_hash

Cache = WeightsCache | CompileCache


def claim_name(tier: InferenceTier, purpose: str, cache: Cache) -> str:
    """The name of a shared cache's claim.

    A claim's class and access mode cannot be edited, so their hash is part of the name; the size can grow and is not.
    """
    fixed = f"{cache.storage_class_name or ''}/{cache.access_mode}"
    return child_name(tier.metadata.name, f"{purpose}-{short_hash(fixed)}")


def persistent_volume_claim(tier: InferenceTier, purpose: str, cache: Cache) -> dict[str, Any]:
    """The claim of a shared cache; without an owner when it is to outlive the tier."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": child_metadata(tier, claim_name(tier, purpose, cache), owned=not cache.retained),
        "spec": _claim_spec(cache),
    }


def cache_volume(tier: InferenceTier, purpose: str, cache: Cache | None) -> dict[str, Any]:
    """The pod's volume for a cache.

    A volume that lives with the pod gets no labels of ours: its claim belongs to the pod, not to the tier.
    """
    if cache is None:
        return {"name": purpose, "emptyDir": {}}
    if cache.sharing == "Shared":
        return {
            "name": purpose,
            "persistentVolumeClaim": {"claimName": claim_name(tier, purpose, cache)},
        }
    return {"name": purpose, "ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec(cache)}}}


def _claim_spec(cache: Cache) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [cache.access_mode],
        "resources": {"requests": {"storage": cache.size}},
    }
    if cache.storage_class_name is not None:
        spec["storageClassName"] = cache.storage_class_name
    return spec
