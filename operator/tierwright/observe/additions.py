"""Finds fields of a child's spec that somebody else added, beside what we set, and who it was.

Server-side apply corrects what we set and leaves alone what we do not: a node selector or a container more stays until
it is removed. managedFields tell whose it is. What Kubernetes itself fills in belongs to nobody or to one of its own
components, and labels and annotations are free for everybody.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tierwright.kube.resources import Object
from tierwright.observe.managers import CHILDREN_MANAGER, SCALER_MANAGER
from tierwright.observe.snapshot import ChildAdditions

Tree = Mapping[str, Any]
"""Fields as managedFields write them: ``f:name`` for a field, ``k:{...}`` for a list entry by its merge key."""

_OURS: Final = (CHILDREN_MANAGER, SCALER_MANAGER)
_OF_KUBERNETES: Final = frozenset({"kube-controller-manager", "kube-scheduler", "kube-apiserver", "kubelet"})
_FREE: Final = frozenset({"f:metadata", "f:replicas", "f:volumeName", "."})
"""Labels and annotations of pods; replicas, which have words of their own; the volume that a claim was bound to."""
_OF_THE_MAKER: Final = frozenset({"f:selector", "f:podSelector", "f:accessModes"})
"""Who set one of these made the object whole, as a restored backup does: its defaults cannot be told from additions."""


@dataclass(frozen=True)
class Addition:
    """One field that somebody else set, such as ``spec.template.spec.nodeSelector``, and that field manager."""

    manager: str
    field: str


def additions(obj: Mapping[str, Any]) -> tuple[Addition, ...]:
    """What others added to the spec of a live object, in the order of managers and fields."""
    found = {
        Addition(manager, field)
        for manager, tree in _trees(obj).items()
        for field in _leaves(tree, "spec")
        if manager != CHILDREN_MANAGER
    }
    return tuple(sorted(found, key=lambda each: (each.manager, each.field)))


def child_additions(children: Iterable[Object]) -> tuple[ChildAdditions, ...]:
    """What others added to these objects, one entry for each object and manager, in a fixed order."""
    found: list[ChildAdditions] = []
    for child in children:
        name = f"{child.get('kind')} {child['metadata']['name']}"
        for manager, group in groupby(additions(child), key=lambda each: each.manager):
            found.append(ChildAdditions(name, manager, tuple(each.field for each in group)))
    return tuple(sorted(found, key=lambda each: (each.child, each.manager)))


def reduced(obj: Mapping[str, Any]) -> list[Object]:
    """The part of an object's managedFields that ``additions`` reads; empty when nobody added anything.

    Ours stay even when none of our fields lies on the way: without them, who added could have made the whole object.
    """
    return [
        {"manager": manager, "fieldsV1": {"f:spec": tree or {".": {}}}}
        for manager, tree in sorted(_trees(obj).items())
    ]


def _trees(obj: Mapping[str, Any]) -> dict[str, Tree]:
    """What each other manager added, its topmost fields as leaves, and our own fields on the way there."""
    entries = [
        (str(entry.get("manager")), spec)
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
        if not entry.get("subresource") and (spec := (entry.get("fieldsV1") or {}).get("f:spec"))
    ]
    ours = [spec for manager, spec in entries if manager in _OURS]
    found: dict[str, Tree] = {}
    for manager, spec in entries:
        if ours and manager not in _OURS and manager not in _OF_KUBERNETES and _OF_THE_MAKER.isdisjoint(spec):
            theirs, way = _beside(ours, spec)
            if theirs:
                found[manager] = _merged(found.get(manager, {}), theirs)
                found[CHILDREN_MANAGER] = _merged(found.get(CHILDREN_MANAGER, {}), way)
    return found


def _beside(ours: Sequence[Tree], theirs: Tree) -> tuple[Tree, Tree]:
    """The topmost fields of ``theirs`` that none of ``ours`` holds, and those of ours in which they lie."""
    added: dict[str, Any] = {}
    way: dict[str, Any] = {}
    for key, below in theirs.items():
        known = [each[key] for each in ours if key in each]
        if key in _FREE:
            continue
        if not known:
            added[key] = {}
            continue
        deeper, along = _beside(known, below)
        if deeper:
            added[key], way[key] = deeper, along
    return added, way


def _merged(left: Tree, right: Tree) -> Tree:
    return {key: _merged(left.get(key, {}), right.get(key, {})) for key in (*left, *right)}


def _leaves(tree: Tree, path: str) -> Iterator[str]:
    for key, below in tree.items():
        place = path + _spelt(key)
        if below:
            yield from _leaves(below, place)
        else:
            yield place


def _spelt(key: str) -> str:
    """One step of a path as a person writes it: ``.args``, ``[engine]`` for a list entry by its merge key."""
    kind, _, rest = key.partition(":")
    if kind == "f":
        return f".{rest}"
    try:
        value = json.loads(rest)
    except ValueError:
        return f"[{rest}]"
    return f"[{'/'.join(str(each) for each in value.values())}]" if isinstance(value, dict) else f"[{value}]"
