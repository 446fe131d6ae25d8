"""Rules on the tier's volumes: who can mount them, what may change, and when they would be of no use."""

from typing import Final

from tierwright.api.cache import CompileCache, WeightsCache
from tierwright.api.rules.rule import AnyRule, Rule, TransitionRule, quantity
from tierwright.api.rules.sources import ANY_MAY_FILL_CEL, any_may_fill
from tierwright.api.scalars import quantity_value
from tierwright.api.tier import TierSpec

Volume = WeightsCache | CompileCache

_NAMES: Final = ("weights", "compile")


def volume(spec: TierSpec, name: str) -> Volume | None:
    """One of the tier's volumes."""
    return spec.cache.weights if name == "weights" else spec.cache.compile


def _has_cel(name: str, owner: str = "self") -> str:
    return f"has({owner}.cache) && has({owner}.cache.{name})"


def _one_node_cel(name: str) -> str:
    return (
        f"({_has_cel(name)} && self.cache.{name}.sharing == 'Shared' && "
        f"self.cache.{name}.accessMode != 'ReadWriteMany')"
    )


def _on_one_node(cache: Volume | None) -> bool:
    return cache is not None and cache.sharing == "Shared" and cache.access_mode != "ReadWriteMany"


SHARED_ON_ONE_NODE_CEL: Final = "(" + " || ".join(_one_node_cel(name) for name in _NAMES) + ")"
"""``shared_on_one_node`` for the API server; ``self`` is the spec."""


def shared_on_one_node(spec: TierSpec) -> bool:
    """Whether all replicas share a volume that one node, or one pod, mounts at a time."""
    return any(_on_one_node(volume(spec, name)) for name in _NAMES)


def _most_replicas(spec: TierSpec) -> int:
    return spec.replicas if spec.scaling.max_replicas is None else spec.scaling.max_replicas


def _can_be_mounted(name: str) -> AnyRule:
    return Rule[TierSpec](
        at="spec",
        field=f"cache.{name}.accessMode",
        cel=(
            f"!{_one_node_cel(name)} || "
            "(has(self.scaling.maxReplicas) ? self.scaling.maxReplicas : self.replicas) <= 1"
        ),
        message=(
            "replicas on several nodes cannot share a volume that one node mounts at a time; use accessMode: "
            "ReadWriteMany with a class that offers it, sharing: PerReplica, or at most one replica"
        ),
        holds=lambda spec: not _on_one_node(volume(spec, name)) or _most_replicas(spec) <= 1,
    )


_RETAINED_CEL: Final = {
    "weights": "(!has({volume}.reclaimPolicy) || {volume}.reclaimPolicy == 'Retain')",
    "compile": "(has({volume}.reclaimPolicy) && {volume}.reclaimPolicy == 'Retain')",
}
"""Whether a shared volume outlives the tier; the two volumes differ in what they do by default."""


def _stays_as_it_is(name: str) -> AnyRule:
    old, new = f"oldSelf.cache.{name}", f"self.cache.{name}"

    def holds(before: TierSpec, after: TierSpec) -> bool:
        kept, now = volume(before, name), volume(after, name)
        return (
            kept is None
            or not kept.retained
            or (
                now is not None
                and now.sharing == "Shared"
                and now.access_mode == kept.access_mode
                and now.storage_class_name == kept.storage_class_name
            )
        )

    # On the spec: a rule further down would not be asked when the volume is removed and comes back with another class.
    return TransitionRule[TierSpec](
        at="spec",
        field=f"cache.{name}",
        cel=(
            f"!({_has_cel(name, 'oldSelf')} && {old}.sharing == 'Shared' && "
            f"{_RETAINED_CEL[name].format(volume=old)}) || "
            f"({_has_cel(name)} && {new}.sharing == 'Shared' && {new}.accessMode == {old}.accessMode && "
            f"has({new}.storageClassName) == has({old}.storageClassName) && "
            f"(!has({new}.storageClassName) || {new}.storageClassName == {old}.storageClassName))"
        ),
        message=(
            "a retained volume keeps its storageClassName, accessMode and sharing, and stays; to give its data up, "
            "set reclaimPolicy: Delete first"
        ),
        holds=holds,
        reason="FieldValueForbidden",
    )


def _never_shrinks(name: str) -> AnyRule:
    old, new = f"oldSelf.cache.{name}", f"self.cache.{name}"

    def holds(before: TierSpec, after: TierSpec) -> bool:
        kept, now = volume(before, name), volume(after, name)
        if kept is None or now is None or not (kept.sharing == now.sharing == "Shared"):
            return True
        return quantity_value(now.size) >= quantity_value(kept.size)

    return TransitionRule[TierSpec](
        at="spec",
        field=f"cache.{name}.size",
        cel=(
            f"!({_has_cel(name, 'oldSelf')} && {_has_cel(name)} && {old}.sharing == 'Shared' && "
            f"{new}.sharing == 'Shared') || "
            f"{quantity(new + '.size')}.compareTo({quantity(old + '.size')}) >= 0"
        ),
        message="a volume can grow but not shrink; set the former size or a larger one",
        holds=holds,
        reason="FieldValueForbidden",
    )


def _has_room(name: str) -> AnyRule:
    return Rule[Volume](
        at=f"spec.cache.{name}",
        field="size",
        cel=f"{quantity('self.size')}.compareTo(quantity('1Mi')) >= 0",
        message="the volume is smaller than 1Mi; give the size with its unit, such as 200Gi",
        holds=lambda cache: quantity_value(cache.size) >= quantity_value("1Mi"),
    )


def _goes_with_the_pod(name: str) -> AnyRule:
    return Rule[Volume](
        at=f"spec.cache.{name}",
        field="reclaimPolicy",
        cel="self.sharing == 'Shared' || !has(self.reclaimPolicy) || self.reclaimPolicy == 'Delete'",
        message=(
            "a volume of each replica goes with its pod and cannot be retained; use sharing: Shared, or remove "
            "reclaimPolicy"
        ),
        holds=lambda cache: cache.sharing == "Shared" or cache.reclaim_policy != "Retain",
    )


RULES: Final[tuple[AnyRule, ...]] = (
    *(_has_room(name) for name in _NAMES),
    *(_goes_with_the_pod(name) for name in _NAMES),
    *(_can_be_mounted(name) for name in _NAMES),
    Rule[TierSpec](
        at="spec",
        field="cache.weights",
        cel=f"!({_has_cel('weights')}) || {ANY_MAY_FILL_CEL}",
        message="pvc:// and file:// sources are read where they lie, so nothing would fill the volume; remove weights",
        holds=lambda spec: spec.cache.weights is None or any_may_fill(spec),
    ),
    *(_stays_as_it_is(name) for name in _NAMES),
    *(_never_shrinks(name) for name in _NAMES),
)
