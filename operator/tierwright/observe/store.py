"""Holds the live objects that the operator watches; the only source that a reconcile reads them from.

Events arrive late, twice and out of order, and some never arrive. Versions decide between two states of one object,
and a full list (``replace_all``) is the truth for everything that was learned before it was begun.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tierwright.kube.resources import DEPLOYMENT, HPA, POD, Object, ObjectRef, ResourceKind
from tierwright.observe.slim import slim

TierKey = tuple[str, str]
"""Namespace and name of a tier."""

MAX_TOMBSTONES: Final = 10_000
_Place = tuple[str, str]
_SpeedKey = tuple[str, str, str]


@dataclass(frozen=True)
class _Record:
    """One object, when it was learned (a count, not a time), and the parts a change of which matters."""

    kind: ResourceKind
    obj: Object
    version: int | None
    learned: int


@dataclass(frozen=True)
class _Tombstone:
    """The version up to which a deleted object is known to be gone."""

    version: int | None
    learned: int


class Store:
    """Objects by kind, namespace and name. Returned objects are shared: do not change them.

    ``tier_kind`` is the kind of the tiers; ``label_value_of`` turns a tier's name into the value of the label that
    its children carry under ``tier_label``. Methods that take in news return the tiers that must be reconciled
    because of it. Not safe for use from several threads.
    """

    def __init__(
        self,
        tier_kind: ResourceKind,
        label_value_of: Callable[[str], str],
        tier_label: str,
    ) -> None:
        """Start empty."""
        self.tier_kind = tier_kind
        self._label_value_of = label_value_of
        self._tier_label = tier_label
        self._records: dict[ResourceKind, dict[_Place, _Record]] = defaultdict(dict)
        self._children: dict[_Place, dict[ResourceKind, dict[str, Object]]] = {}
        self._names_by_label: dict[_Place, set[str]] = {}
        self._speeds: dict[_SpeedKey, set[str]] = {}
        self._tombstones: OrderedDict[tuple[ResourceKind, _Place], _Tombstone] = OrderedDict()
        self._count = 0

    # Reading

    def get(self, ref: ObjectRef) -> Object | None:
        """One object; None when it is not there or not watched."""
        record = self._records[ref.kind].get((ref.namespace or "", ref.name))
        return record.obj if record else None

    def tier(self, namespace: str, name: str) -> Object | None:
        """One tier."""
        return self.get(ObjectRef(self.tier_kind, namespace, name))

    def tiers(self, namespace: str | None = None) -> list[Object]:
        """All tiers, of one namespace or of all."""
        records = self._records[self.tier_kind]
        return [record.obj for place, record in records.items() if namespace in (None, place[0])]

    def same_speed(self, namespace: str, model: str, speed: str) -> list[Object]:
        """All tiers of one namespace that serve this model at this speed (more than one is a conflict)."""
        found = (
            self.tier(namespace, name) for name in sorted(self._speeds.get((namespace, model, speed), ()))
        )
        return [tier for tier in found if tier is not None]

    def children_of(self, namespace: str, tier_name: str, kind: ResourceKind | None = None) -> list[Object]:
        """Objects that carry the tier's label, of one kind or of all kinds but pods."""
        by_kind = self._children.get((namespace, self._label_value_of(tier_name)), {})
        if kind is not None:
            return list(by_kind.get(kind, {}).values())
        return [obj for each, objects in by_kind.items() if each != POD for obj in objects.values()]

    def pods_of(self, namespace: str, tier_name: str) -> list[Object]:
        """Pods that carry the tier's label."""
        return self.children_of(namespace, tier_name, POD)

    def all_of(self, kind: ResourceKind, namespace: str) -> list[Object]:
        """All watched objects of a kind in one namespace, such as its autoscalers."""
        return [record.obj for place, record in self._records[kind].items() if place[0] == namespace]

    def counts(self) -> dict[str, int]:
        """How many objects of each kind are held."""
        return {kind.kind: len(records) for kind, records in self._records.items()}

    # Taking in news

    def put(self, kind: ResourceKind, obj: Object) -> set[TierKey]:
        """Takes in a live object; ignored when it is not newer than what is known, or than its deletion."""
        place, version = _place_of(obj), _version_of(obj)
        known = self._records[kind].get(place)
        tombstone = self._tombstones.get((kind, place))
        if known and not _is_newer(version, known.version):
            return set()
        if tombstone and not _is_newer(version, tombstone.version):
            return set()
        return self._take(kind, place, obj, version)

    def delete(self, kind: ResourceKind, obj: Object) -> set[TierKey]:
        """Notes that the object is gone; ignored when a newer one is known. ``obj`` is its last state."""
        place, version = _place_of(obj), _version_of(obj)
        known = self._records[kind].get(place)
        if known and version is not None and known.version is not None and version < known.version:
            return set()
        return self._drop(kind, place, version)

    def mark(self) -> int:
        """A mark for ``replace_all``: take it before the list is requested."""
        return self._count

    def replace_all(
        self,
        kind: ResourceKind,
        objects: Iterable[Object],
        *,
        mark: int | None = None,
        namespace: str | None = None,
    ) -> set[TierKey]:
        """Makes the store equal to a full list of one namespace, or of all.

        The list overrules all that was learned before ``mark``, even newer versions: a server restored from a backup
        counts from an older one. What was learned later, while the list was read, stays if it is newer.
        """
        limit = self._count if mark is None else mark
        changed: set[TierKey] = set()
        listed: set[_Place] = set()
        for obj in objects:
            place, version = _place_of(obj), _version_of(obj)
            listed.add(place)
            known = self._records[kind].get(place)
            tombstone = self._tombstones.get((kind, place))
            if known and (
                version == known.version or (known.learned > limit and not _is_newer(version, known.version))
            ):
                continue
            if tombstone and tombstone.learned > limit and not _is_newer(version, tombstone.version):
                continue
            changed |= self._take(kind, place, obj, version)
        ghosts = [
            place
            for place, record in self._records[kind].items()
            if place not in listed and record.learned <= limit and namespace in (None, place[0])
        ]
        for place in ghosts:
            changed |= self._drop(kind, place, self._records[kind][place].version)
        return changed

    # Keeping the books

    def _take(self, kind: ResourceKind, place: _Place, obj: Object, version: int | None) -> set[TierKey]:
        kept = slim(kind, obj)
        known = self._records[kind].get(place)
        self._count += 1
        self._tombstones.pop((kind, place), None)
        if known:
            before = self._keys_of(kind, known.obj)
            self._unindex(kind, place, known.obj)
        else:
            before = set()
        self._records[kind][place] = _Record(kind, kept, version, self._count)
        self._index(kind, place, kept)
        if known and _relevant(known.obj) == _relevant(kept):
            return set()
        return before | self._keys_of(kind, kept)

    def _drop(self, kind: ResourceKind, place: _Place, version: int | None) -> set[TierKey]:
        self._count += 1
        self._tombstones[(kind, place)] = _Tombstone(version, self._count)
        self._tombstones.move_to_end((kind, place))
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
        record = self._records[kind].pop(place, None)
        if record is None:
            return set()
        keys = self._keys_of(kind, record.obj)
        self._unindex(kind, place, record.obj)
        return keys

    def _keys_of(self, kind: ResourceKind, obj: Object) -> set[TierKey]:
        """The tiers that an object matters to: a tier itself and its rivals, or the owner and the label of a child."""
        namespace, name = _place_of(obj)
        if kind == self.tier_kind:
            rivals = self._speeds.get(_speed_of(namespace, obj), set())
            return {(namespace, name), *((namespace, rival) for rival in rivals)}
        if kind == HPA:
            return self._keys_of_target(namespace, obj)
        names = set(self._names_by_label.get((namespace, self._label_of(obj)), ()))
        for owner in (obj.get("metadata") or {}).get("ownerReferences") or ():
            if owner.get("kind") == self.tier_kind.kind and str(owner.get("apiVersion", "")).startswith(
                f"{self.tier_kind.group}/"
            ):
                names.add(str(owner.get("name")))
        return {(namespace, each) for each in names}

    def _keys_of_target(self, namespace: str, autoscaler: Object) -> set[TierKey]:
        """The tier that an autoscaler scales, through /scale of the tier or at its workload."""
        target = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
        name = str(target.get("name", ""))
        if target.get("kind") == self.tier_kind.kind:
            return {(namespace, name)}
        workload = self._records[DEPLOYMENT].get((namespace, name))
        if workload is None or target.get("kind") != DEPLOYMENT.kind:
            return set()
        return self._keys_of(DEPLOYMENT, workload.obj)

    def _label_of(self, obj: Object) -> str:
        return str(((obj.get("metadata") or {}).get("labels") or {}).get(self._tier_label, ""))

    def _index(self, kind: ResourceKind, place: _Place, obj: Object) -> None:
        namespace, name = place
        if kind == self.tier_kind:
            self._names_by_label.setdefault((namespace, self._label_value_of(name)), set()).add(name)
            self._speeds.setdefault(_speed_of(namespace, obj), set()).add(name)
        elif label := self._label_of(obj):
            self._children.setdefault((namespace, label), {}).setdefault(kind, {})[name] = obj

    def _unindex(self, kind: ResourceKind, place: _Place, obj: Object) -> None:
        namespace, name = place
        if kind == self.tier_kind:
            _discard(self._names_by_label, (namespace, self._label_value_of(name)), name)
            _discard(self._speeds, _speed_of(namespace, obj), name)
        elif label := self._label_of(obj):
            by_kind = self._children[(namespace, label)]
            del by_kind[kind][name]
            if not by_kind[kind]:
                del by_kind[kind]
            if not by_kind:
                del self._children[(namespace, label)]


def _discard(index: dict[Any, set[str]], key: Any, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _place_of(obj: Mapping[str, Any]) -> _Place:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _speed_of(namespace: str, tier: Mapping[str, Any]) -> _SpeedKey:
    """Stored objects may be older than today's schema: nothing is taken for granted."""
    spec = tier.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    model = spec.get("model")
    model = model if isinstance(model, dict) else {}
    return namespace, str(model.get("name", "")), str(spec.get("speed", ""))


def _version_of(obj: Mapping[str, Any]) -> int | None:
    """The resourceVersion as a number, which orders the states of one object; None when it has no such order."""
    text = (obj["metadata"].get("resourceVersion")) or ""
    return int(text) if text.isascii() and text.isdigit() else None


def _is_newer(version: int | None, known: int | None) -> bool:
    return version is None or known is None or version > known


def _relevant(obj: Object) -> Object:
    """What of an object can change a decision: all but its version number.

    A tier's status is ours alone to write, so a change of it that did not come from our own write has to be put right.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}
