"""Decides which parts of a live object are kept in memory: what a reconcile reads, and nothing else."""

import sys
from collections.abc import Callable
from typing import Any, Final

from tierwright.kube.resources import DEPLOYMENT, HPA, POD, Object, ResourceKind
from tierwright.observe.additions import reduced

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
_CLAIMS: Final = frozenset({"persistentVolumeClaim", "ephemeral"})
_BULKY_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def slim(kind: ResourceKind, obj: Object) -> Object:
    """A copy of ``obj`` without what nobody reads.

    Pods keep metadata, status and the few fields of the spec that explain them; autoscalers keep their target. Of
    managedFields only what says who owns a workload's ``spec.replicas``, and who added fields to ours, is kept.
    """
    special = _SPECIAL.get(kind)
    kept = _child(obj) if special is None else special(obj)
    compact: Object = _compact(kept)
    metadata: Object = compact["metadata"]
    annotations = metadata.get("annotations")
    if annotations and not _BULKY_ANNOTATIONS.isdisjoint(annotations):
        metadata["annotations"] = {
            name: value for name, value in annotations.items() if name not in _BULKY_ANNOTATIONS
        }
    return compact


def _without_managed_fields(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _child(obj: Object) -> Object:
    kept = _without_managed_fields(obj)
    if others := reduced(obj):
        kept["metadata"]["managedFields"] = others
    return kept


def _pod(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    kept = {name: spec[name] for name in _POD_SPEC if name in spec}
    for group in ("initContainers", "containers"):
        if group in spec:
            kept[group] = [{name: each[name] for name in _CONTAINER if name in each} for each in spec[group]]
    kept["volumes"] = [
        {"name": each.get("name"), **{source: each[source] for source in _CLAIMS if source in each}}
        for each in spec.get("volumes") or ()
        if not _CLAIMS.isdisjoint(each)
    ]
    return {**_without_managed_fields(obj), "spec": kept}


def _workload(obj: Object) -> Object:
    owners = [
        {
            **{name: entry[name] for name in ("manager", "operation", "subresource") if name in entry},
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
        for entry in obj["metadata"].get("managedFields") or ()
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    slimmer = _without_managed_fields(obj)
    return {**slimmer, "metadata": {**slimmer["metadata"], "managedFields": [*owners, *reduced(obj)]}}


def _autoscaler(obj: Object) -> Object:
    target = (obj.get("spec") or {}).get("scaleTargetRef")
    kept = _without_managed_fields(obj)
    kept.pop("status", None)
    return {**kept, "spec": {"scaleTargetRef": target}}


_SPECIAL: Final[dict[ResourceKind, Callable[[Object], Object]]] = {
    POD: _pod,
    DEPLOYMENT: _workload,
    HPA: _autoscaler,
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
