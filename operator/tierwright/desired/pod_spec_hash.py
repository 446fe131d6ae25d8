"""Decides which fields of the spec pods are made from, and gives their hash, by which an engine image stays in use."""

from typing import Any

from tierwright.api.base import ApiModel
from tierwright.api.tier import TierSpec
from tierwright.desired.canonical import digest
from tierwright.desired.pvc import Cache


def pod_spec_hash(spec: TierSpec) -> str:
    """A hash that changes with every field that can show in a pod, and with no field that cannot but a few.

    Of model, engine and hardware all fields count, though some of them no pod shows. What the operator alone decides
    (labels, probes, defaults) does not count: only the user's edits change the hash.
    Fields at their defaults are left out, so that a field that a later release adds changes no hash.
    """
    fields: dict[str, Any] = {
        "model": _set_fields(spec.model),
        "speed": spec.speed,
        "engine": _set_fields(spec.engine),
        "hardware": _set_fields(spec.hardware),
        "schedulerName": spec.pod.scheduler_name,
        "priorityClassName": spec.pod.priority_class_name,
        "imagePullSecrets": [secret.name for secret in spec.pod.image_pull_secrets],
        "serviceAccountName": spec.pod.service_account.name,
        "weights": _cache(spec.cache.weights),
        "compile": _cache(spec.cache.compile),
        "drainTimeout": spec.rollout.drain_timeout,
        "startupTimeout": spec.rollout.startup_timeout,
        "podTemplate": spec.pod_template,
    }
    named = {name: value for name, value in fields.items() if value}
    return digest(named)


def _set_fields(model: ApiModel) -> dict[str, Any]:
    """The fields that differ from their defaults; a group of which none does is as good as absent."""
    wire = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return {name: value for name, value in wire.items() if value != {}}


def _cache(cache: Cache | None) -> dict[str, Any]:
    """The part of a cache that the pod sees: of a shared one the claim's name, which does not hold its size."""
    if cache is None:
        return {}
    seen: dict[str, Any] = {
        "storageClassName": cache.storage_class_name,
        "accessMode": cache.access_mode,
        "sharing": cache.sharing,
    }
    return seen if cache.sharing == "Shared" else {**seen, "size": cache.size}
