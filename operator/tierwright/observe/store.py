"""Holds the live objects that the operator watches; the only source that a reconcile reads them from."""

from collections.abc import Callable, Iterable

from tierwright.kube.resources import Object, ObjectRef, ResourceKind

TierKey = tuple[str, str]
"""Namespace and name of a tier."""


class Store:
    """Objects by kind, namespace and name. Returned objects are shared: do not change them.

    ``tier_kind`` is the kind of the tiers; ``label_value_of`` turns a tier's name into the value of the label that
    its children carry under ``tier_label``.
    """

    def __init__(
        self,
        tier_kind: ResourceKind,
        label_value_of: Callable[[str], str],
        tier_label: str = "tierwright.dev/tier",
    ) -> None:
        raise NotImplementedError

    def put(self, kind: ResourceKind, obj: Object) -> bool:
        """Takes in a live object; False when it is not newer than what is known (or than its deletion)."""
        raise NotImplementedError

    def delete(self, kind: ResourceKind, obj: Object) -> bool:
        """Notes that the object is gone; False when a newer one is known."""
        raise NotImplementedError

    def get(self, ref: ObjectRef) -> Object | None:
        """One object; None when it is not there or not watched."""
        raise NotImplementedError

    def tier(self, namespace: str, name: str) -> Object | None:
        """One tier."""
        raise NotImplementedError

    def tiers(self, namespace: str | None = None) -> list[Object]:
        """All tiers, of one namespace or of all."""
        raise NotImplementedError

    def children_of(self, namespace: str, tier_name: str, kind: ResourceKind | None = None) -> list[Object]:
        """Objects (pods left out unless asked for by kind) that carry the tier's label."""
        raise NotImplementedError

    def pods_of(self, namespace: str, tier_name: str) -> list[Object]:
        """Pods that carry the tier's label."""
        raise NotImplementedError

    def replace_all(
        self,
        kind: ResourceKind,
        objects: Iterable[Object],
        *,
        resource_version: str = "",
        namespace: str | None = None,
    ) -> set[TierKey]:
        """Makes the store equal to a full list (of one namespace, or of all); returns the tiers that it changes for."""
        raise NotImplementedError
