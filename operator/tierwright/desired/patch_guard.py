"""Decides what a pod template patch may not touch: the labels of the pods, the engine's image and arguments, devices."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tierwright.desired.containers import ENGINE_CONTAINER
from tierwright.desired.quantity_fields import QUANTITY_FIELDS, QUANTITY_MAPS
from tierwright.desired.strategic_merge import strategic_merge
from tierwright.hardware.refusal import invalid

_FIELD: Final = "spec.podTemplate"
_TYPED: Final[Mapping[str, str]] = {
    "image": "spec.engine.image",
    "args": "spec.engine.extraArgs",
}
"""Fields of the engine's container that a typed field sets already."""
_VAST: Final = re.compile(r"[eE][+-]?\d{4}|.{65}", re.DOTALL)
"""The API server works a quantity such as 1e99999999 out to its last digit, for minutes and with gigabytes."""
_ACCELERATORS: Final = ("nvidia.com/", "aws.amazon.com/neuron")
"""Beginnings of resource names by which a pod takes devices, which spec.hardware alone may do."""


def patched_pod_template(
    template: Mapping[str, Any], patch: Mapping[str, Any], devices: Mapping[str, int]
) -> dict[str, Any]:
    """The template with the user's patch.

    Args:
        template: what the typed fields make.
        patch: spec.podTemplate.
        devices: the accelerator resources of the pod.

    Raises:
        RefusedError: the patch is no part of a pod template, or touches what it may not.
    """
    _refuse_other_fields(patch)
    _refuse_vast_quantities(patch, _FIELD)
    merged = strategic_merge(template, patch, _FIELD)
    _refuse_changed_labels(template, merged)
    _refuse_changed_engine(template, merged)
    _refuse_changed_devices(template, merged, devices)
    return merged


def _refuse_other_fields(patch: Mapping[str, Any]) -> None:
    for name, value in patch.items():
        if name not in ("metadata", "spec"):
            advice = (
                "spec.replicas sets the number of pods" if name == "replicas" else "write metadata or spec"
            )
            raise invalid(f"{_FIELD}.{name}", f"a pod template has no field {name}; {advice}")
        if not isinstance(value, Mapping):
            raise invalid(f"{_FIELD}.{name}", "this is no object; write its fields")
    for name, advice in (("replicas", "spec.replicas"), ("template", "spec.podTemplate itself")):
        if name in patch.get("spec", {}):
            raise invalid(
                f"{_FIELD}.spec.{name}", f"this is the spec of a pod, not of a Deployment; use {advice}"
            )
    for name in patch.get("metadata", {}):
        if name not in ("labels", "annotations"):
            raise invalid(f"{_FIELD}.metadata.{name}", "only labels and annotations may be added to the pods")


def _refuse_vast_quantities(part: Any, path: str) -> None:
    """Each try to apply one would keep the API server from serving everybody else."""
    for place, value in _members(part, path):
        name = place.rpartition(".")[2]
        quantities = value if name in QUANTITY_MAPS else {name: value} if name in QUANTITY_FIELDS else {}
        for resource, quantity in _object(quantities).items():
            if _VAST.search(str(quantity)):
                where = place if name == resource else f"{place}[{resource}]"
                raise invalid(where, "this is no amount that a node can have; write one such as 500m or 16Gi")
        _refuse_vast_quantities(value, place)


def _members(part: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(part, Mapping):
        yield from ((f"{path}.{name}", value) for name, value in part.items())
    elif isinstance(part, list):
        yield from ((f"{path}[{index}]", value) for index, value in enumerate(part))


def _refuse_changed_labels(template: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    labels = merged["metadata"].get("labels", {})
    for name, value in template["metadata"]["labels"].items():
        if labels.get(name) != value:
            raise invalid(
                f"{_FIELD}.metadata.labels[{name}]",
                "the operator finds the tier's pods by this label; leave it out",
            )


def _refuse_changed_engine(template: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    before, after = _engine(template), _engine(merged)
    if after is None:
        raise invalid(
            f"{_FIELD}.spec.containers", f"the container {ENGINE_CONTAINER} serves the tier; keep it"
        )
    for name, typed_field in _TYPED.items():
        if before is not None and after.get(name) != before[name]:
            raise invalid(
                f"{_FIELD}.spec.containers[{ENGINE_CONTAINER}].{name}",
                f"a typed field sets this; use {typed_field}",
            )


def _refuse_changed_devices(
    template: Mapping[str, Any], merged: Mapping[str, Any], devices: Mapping[str, int]
) -> None:
    before = dict(_quantities(template))
    after = dict(_quantities(merged))
    for place, resource in before | after:
        if resource not in devices and not resource.startswith(_ACCELERATORS):
            continue
        if before.get((place, resource)) != after.get((place, resource)):
            advice = "the devices of a pod come from spec.hardware; leave them as they are"
            raise invalid(f"{_FIELD}.spec.{place}[{resource}]", advice)


def _engine(template: Mapping[str, Any]) -> Mapping[str, Any] | None:
    containers = template["spec"].get("containers", [])
    return next((item for item in containers if item["name"] == ENGINE_CONTAINER), None)


def _quantities(template: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Place and name of each resource of each container, with its quantity."""
    for field in ("containers", "initContainers"):
        for container in template["spec"].get(field, []):
            resources = _object(container.get("resources"))
            for kind in ("requests", "limits"):
                for resource, quantity in _object(resources.get(kind)).items():
                    yield (f"{field}[{container['name']}].resources.{kind}", resource), quantity


def _object(value: Any) -> Mapping[str, Any]:
    """The value where it is an object; the API server refuses what is none."""
    return value if isinstance(value, Mapping) else {}
