"""Decides how a user's patch joins a pod template: maps merge, known lists merge by key, other lists are replaced."""

from collections.abc import Mapping
from typing import Any, Final

from tierwright.hardware.refusal import invalid

_APPEND: Final = ""
_MERGE_KEYS: Final[Mapping[str, str]] = {
    "spec.containers": "name",
    "spec.initContainers": "name",
    "spec.volumes": "name",
    "spec.imagePullSecrets": "name",
    "spec.hostAliases": "ip",
    "spec.resourceClaims": "name",
    "spec.schedulingGates": "name",
    "spec.topologySpreadConstraints": "topologyKey",
    # Kubernetes replaces tolerations as a whole; the accelerator's own would be lost by that.
    "spec.tolerations": _APPEND,
    "spec.containers[].env": "name",
    "spec.containers[].ports": "containerPort",
    "spec.containers[].volumeMounts": "mountPath",
    "spec.containers[].volumeDevices": "devicePath",
    "spec.containers[].envFrom": _APPEND,
    "spec.initContainers[].env": "name",
    "spec.initContainers[].ports": "containerPort",
    "spec.initContainers[].volumeMounts": "mountPath",
    "spec.initContainers[].volumeDevices": "devicePath",
    "spec.initContainers[].envFrom": _APPEND,
}
"""Lists of the pod template that are merged item by item, with the field that names an item."""
_ONE_OF: Final = ("spec.volumes", "spec.containers[].env", "spec.initContainers[].env")
"""Lists whose items hold one of several fields; merging two items would leave two of them."""


def strategic_merge(base: Mapping[str, Any], patch: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The base with the patch merged into it; None in the patch takes a field away. Neither is changed.

    Args:
        base: a pod template.
        patch: a part of one.
        field: where the patch stands in the tier, for messages.

    Raises:
        RefusedError: a directive (``$patch`` and the like), or an item without the field that names it.
    """
    return _merge_maps(base, patch, "", field)


def _merge_maps(base: Mapping[str, Any], patch: Mapping[str, Any], place: str, field: str) -> dict[str, Any]:
    merged = dict(base)
    for name, value in patch.items():
        path = f"{field}.{name}"
        if name.startswith("$"):
            raise invalid(
                path, f"directives such as {name} are not supported; write null to take a field away"
            )
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_value(merged.get(name), value, f"{place}.{name}".lstrip("."), path)
    return merged


def _merge_value(base: Any, patch: Any, place: str, field: str) -> Any:
    if place in _MERGE_KEYS:
        return _merge_lists(base, patch, place, field)
    if isinstance(patch, Mapping):
        return _merge_maps(base if isinstance(base, Mapping) else {}, patch, place, field)
    if isinstance(base, Mapping):
        raise invalid(field, "this is no object; write the object's fields, each on a line of its own")
    if isinstance(patch, list):
        _refuse_directives(patch, field)
    return patch


def _merge_lists(base: list[Any] | None, patch: Any, place: str, field: str) -> list[Any]:
    if not isinstance(patch, list):
        raise invalid(field, "this is no list; write one, each item behind a dash")
    key = _MERGE_KEYS[place]
    merged = list(base or [])
    for index, item in enumerate(patch):
        path = f"{field}[{index}]"
        if not isinstance(item, Mapping):
            raise invalid(path, "this is no object; write the fields of the item")
        position = None if key == _APPEND else _position(merged, item, key, path)
        found = {} if position is None else merged[position]
        if place in _ONE_OF and len(item) > 1:
            found = {}
        result = _merge_maps(found, item, f"{place}[]", path)
        if position is None:
            merged.append(result)
        else:
            merged[position] = result
    return merged


def _position(items: list[Any], item: Mapping[str, Any], key: str, field: str) -> int | None:
    if item.get(key) is None:
        raise invalid(f"{field}.{key}", f"set {key}: it says which item of the list is meant")
    return next((index for index, other in enumerate(items) if other.get(key) == item[key]), None)


def _refuse_directives(items: list[Any], field: str) -> None:
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            _merge_maps({}, item, "", f"{field}[{index}]")
