"""Decides what the volume provisioner does: which volumes to make, to grow and to delete. Pure.

Storage classes: `standard` (default; waits for the first consumer, its volumes are pinned to that node) and `shared`
(bound at once, no node affinity: a ReadWriteMany cache that pods on every node mount). Both can grow.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

PROVISIONER = "tierwright.dev/hostpath"
SHARED = "shared"
_ASKED_OF = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)}
_MULTIPLIERS = {"": Decimal(1), "m": Decimal("0.001"), **_DECIMAL, **_BINARY}
_QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|(m|k|[MGTPE]|[KMGTPE]i)?)")


Object = Mapping[str, Any]


@dataclass(frozen=True)
class Create:
    """Make the folder, then this PersistentVolume."""

    folder: Path
    volume: dict[str, Any]


@dataclass(frozen=True)
class Grow:
    """Raise the volume's capacity, then the claim's status, to `size`."""

    volume: str
    namespace: str
    claim: str
    size: str


@dataclass(frozen=True)
class Delete:
    """Delete the folder, then the PersistentVolume."""

    folder: Path
    volume: str


Action = Create | Grow | Delete


def storage_classes() -> list[dict[str, Any]]:
    """The StorageClass objects of every cluster."""

    def made(name: str, binding: str, annotations: dict[str, str]) -> dict[str, Any]:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": binding,
            "allowVolumeExpansion": True,
        }

    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [made("standard", "WaitForFirstConsumer", default), made(SHARED, "Immediate", {})]


def decide(
    classes: Iterable[Object], claims: Iterable[Object], volumes: Iterable[Object], root: Path
) -> list[Action]:
    """What to do now, given all StorageClasses, PersistentVolumeClaims and PersistentVolumes as the API shows them.

    `root` is the folder that volumes are made in.
    """
    ours = {item["metadata"]["name"]: item for item in classes if item["provisioner"] == PROVISIONER}
    by_name = {item["metadata"]["name"]: item for item in volumes}
    actions: list[Action] = []
    for claim in claims:
        storage_class = ours.get(claim["spec"].get("storageClassName") or "")
        if storage_class is None or claim["metadata"].get("deletionTimestamp"):
            continue
        phase = claim.get("status", {}).get("phase", "Pending")
        if phase == "Pending" and not claim["spec"].get("volumeName"):
            created = _created(claim, storage_class, root)
            if created and created.volume["metadata"]["name"] not in by_name:
                actions.append(created)
        elif phase == "Bound" and (grown := _grown(claim, by_name)):
            actions.append(grown)
    for name, volume in by_name.items():
        spec, metadata = volume["spec"], volume["metadata"]
        released = volume.get("status", {}).get("phase") == "Released"
        made_here = metadata.get("annotations", {}).get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        deletes = spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if released and made_here and deletes and not metadata.get("deletionTimestamp"):
            actions.append(Delete(root / name, name))
    return actions


def quantity(text: str) -> Decimal:
    """The value of a Kubernetes quantity of bytes, such as `20Gi`, `1.5G`, `1e9`. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity of bytes such as 20Gi")
    number, exponent, suffix = match.groups()
    return Decimal(number).scaleb(int(exponent or 0)) * _MULTIPLIERS[suffix or ""]


def _created(claim: Object, storage_class: Object, root: Path) -> Create | None:
    metadata, spec = claim["metadata"], claim["spec"]
    annotations = metadata.get("annotations", {})
    # The volume controller of Kubernetes sets this when it is our turn: for `standard`, once a node was selected.
    if annotations.get(_ASKED_OF) != PROVISIONER:
        return None
    node = annotations.get(_SELECTED_NODE)
    waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    if waits and not node:
        return None
    name = f"pvc-{metadata['uid']}"
    class_name = storage_class["metadata"]["name"]
    volume: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "hostPath": {"path": str(root / name), "type": "Directory"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }
    if waits:
        hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        volume["spec"]["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]},
        }
    return Create(root / name, volume)


def _grown(claim: Object, volumes: Mapping[str, Object]) -> Grow | None:
    volume = volumes.get(claim["spec"].get("volumeName", ""))
    wanted = claim["spec"]["resources"]["requests"]["storage"]
    has = claim.get("status", {}).get("capacity", {}).get("storage")
    if volume is None or has is None or quantity(wanted) <= quantity(has):
        return None
    metadata = claim["metadata"]
    return Grow(volume["metadata"]["name"], metadata["namespace"], metadata["name"], wanted)
