"""Decides what to do with one desired child, given the live object of its name: create, adopt, apply, wait or keep off.

A removed field needs an apply as well, and containment cannot see it. So every child carries a hash of the manifest
that we last sent, as an annotation that belongs to the manifest: when the desired manifest changes in any way the
annotation differs, and containment finds it. Reading managedFields would do without the annotation, but it would need
each path of ours to be told in the server's own spelling (merge keys with defaults included), and a wrong guess there
is a write at every resync. The annotation stands on the child alone, never on its pod template, so that it cannot
roll a pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tierwright.api.tier import GROUP, KIND
from tierwright.control.containment import differences
from tierwright.desired.canonical import digest
from tierwright.desired.labels import TIER_LABEL
from tierwright.kube.resources import Object

APPLIED_HASH_ANNOTATION: Final = f"{GROUP}/applied-hash"


class Action(StrEnum):
    """What to do with one child."""

    CREATE = "Create"
    ADOPT = "Adopt"
    APPLY = "Apply"
    NOTHING = "Nothing"
    WAIT_FOR_OLD_OWNER = "WaitForOldOwner"
    WAIT_FOR_DELETION = "WaitForDeletion"
    FOREIGN = "Foreign"

    @property
    def writes(self) -> bool:
        """Whether the action sends an apply."""
        return self in (Action.CREATE, Action.ADOPT, Action.APPLY)


@dataclass(frozen=True)
class Plan:
    """The action, the live object's uid where there is one, the fields that differ, and why for a person."""

    action: Action
    uid: str | None = None
    differing: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_drift(self) -> bool:
        """Whether somebody else changed what we had applied: the child differs and was made from the same manifest."""
        return self.action is Action.APPLY and not any(
            APPLIED_HASH_ANNOTATION in path for path in self.differing
        )


@dataclass(frozen=True)
class Owner:
    """The tier that children belong to: its uid, and the value of the tier label that they carry."""

    uid: str
    label_value: str


def stamped(manifest: Mapping[str, Any]) -> Object:
    """The manifest with the hash of itself as an annotation."""
    metadata = dict(manifest["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    annotations[APPLIED_HASH_ANNOTATION] = manifest_hash(manifest)
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """Sixteen hex digits that change with any field of the manifest, and not with the order of its keys."""
    return digest(manifest)


def plan_child(desired: Mapping[str, Any], live: Mapping[str, Any] | None, owner: Owner) -> Plan:
    """What to do with a child; ``desired`` is a stamped manifest without replicas, ``live`` is None when absent."""
    if live is None:
        return Plan(Action.CREATE)
    metadata: Mapping[str, Any] = live.get("metadata") or {}
    uid = str(metadata.get("uid") or "")
    controller = controller_of(live)
    labelled = (metadata.get("labels") or {}).get(TIER_LABEL) == owner.label_value
    if controller is None and not labelled:
        return Plan(
            Action.FOREIGN, uid, why="it exists already and is not this tier's: it lacks the tier's label"
        )
    if controller is not None and controller.get("uid") != owner.uid:
        if controller.get("kind") == KIND and labelled:
            return Plan(
                Action.WAIT_FOR_OLD_OWNER,
                uid,
                why="it belongs to a deleted tier of the same name and is being collected",
            )
        return Plan(
            Action.FOREIGN, uid, why=f"it is controlled by {controller.get('kind')} {controller.get('name')}"
        )
    if metadata.get("deletionTimestamp"):
        return Plan(Action.WAIT_FOR_DELETION, uid, why="it is being deleted")
    differing = differences(desired, live)
    if not differing:
        return Plan(Action.NOTHING, uid)
    adopted = controller is None and controller_of(desired) is not None
    return Plan(Action.ADOPT if adopted else Action.APPLY, uid, differing)


def is_prunable(live: Mapping[str, Any], owner: Owner) -> bool:
    """Whether an object that is no longer wanted may be deleted: it is labelled, controlled by the tier, and not going.

    A retained volume has no controller, so it is never prunable.
    """
    metadata = live.get("metadata") or {}
    controller = controller_of(live)
    return (
        controller is not None
        and controller.get("uid") == owner.uid
        and (metadata.get("labels") or {}).get(TIER_LABEL) == owner.label_value
        and not metadata.get("deletionTimestamp")
    )


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller; None when nothing controls it."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)
