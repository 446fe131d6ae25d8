"""Decides which parts of a live object are kept in memory: what a reconcile reads, and nothing else."""

import sys
from collections.abc import Callable
from typing import Any, Final

from tierwright.kube.resources import POD, REPLICA_SET, Object, ResourceKind

SHORT_TEXT: Final = 64
"""Strings up to this length repeat across objects (labels, phases, images) and are kept once."""

_POD_SPEC: Final = (
    "nodeName",
    "nodeSelector",
    "schedulerName",
    "schedulingGates",
    "priorityClassName",
    "terminationGracePeriodSeconds",
)
_CONTAINER: Final = ("name", "image", "resources", "restartPolicy")
_BULKY_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def slim(kind: ResourceKind, obj: Object) -> Object:
    """A copy of ``obj`` without what nobody reads.

    Pods keep metadata, status and the few fields of the spec that explain them; ReplicaSets keep counts and
    conditions. Children keep managedFields, which say who owns ``spec.replicas``; tiers, pods and ReplicaSets do not.
    """
    special = _SPECIAL.get((kind.group, kind.kind))
    kept = special(obj) if special else obj
    compact: Object = _compact(kept)
    metadata: Object = compact.get("metadata") or {}
    annotations = metadata.get("annotations")
    if annotations and not _BULKY_ANNOTATIONS.isdisjoint(annotations):
        metadata["annotations"] = {
            name: value for name, value in annotations.items() if name not in _BULKY_ANNOTATIONS
        }
    return compact


def without_managed_fields(obj: Object) -> Object:
    """A shallow copy that has no ``metadata.managedFields``."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _pod(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    kept = {name: spec[name] for name in _POD_SPEC if name in spec}
    for group in ("initContainers", "containers"):
        if group in spec:
            kept[group] = [{name: each[name] for name in _CONTAINER if name in each} for each in spec[group]]
    return {**without_managed_fields(obj), "spec": kept}


def _replica_set(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    return {
        **without_managed_fields(obj),
        "spec": {name: spec[name] for name in ("replicas", "minReadySeconds") if name in spec},
    }


_SPECIAL: Final[dict[tuple[str, str], Callable[[Object], Object]]] = {
    (POD.group, POD.kind): _pod,
    (REPLICA_SET.group, REPLICA_SET.kind): _replica_set,
}


def _compact(value: Any) -> Any:
    """A deep copy in which keys and short strings are shared with all other objects."""
    if isinstance(value, dict):
        return {sys.intern(key): _compact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_compact(each) for each in value]
    if type(value) is str and len(value) <= SHORT_TEXT:
        return sys.intern(value)
    return value
