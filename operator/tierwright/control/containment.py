"""Decides whether a live object already holds what is desired, and names the fields where it does not (rule 4).

Live objects hold more than we send: the API server adds defaults, rewrites quantities and drops empty values, other
controllers add labels, annotations and list entries. None of that is drift. A field is compared only where the
desired object says something about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from tierwright.api.scalars import QUANTITY_FACTORS
from tierwright.desired.quantity_fields import QUANTITY_FIELDS, QUANTITY_MAPS

_MERGE_KEYS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "containers": (("name",),),
    "initContainers": (("name",),),
    "ephemeralContainers": (("name",),),
    "env": (("name",),),
    "volumes": (("name",),),
    "imagePullSecrets": (("name",),),
    "secrets": (("name",),),
    "hostAliases": (("ip",),),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "ownerReferences": (("uid",),),
    "conditions": (("type",),),
    "schedulingGates": (("name",),),
    "resourceClaims": (("name",),),
    # Containers key ports by containerPort and Services by port; the protocol is TCP where none is given.
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
}
"""Keys by which server-side apply merges the lists of our kinds; every other list is replaced as a whole."""

_REPLACED_BELOW: Final = ("spec.ingress[",)
"""Lists of NetworkPolicies are replaced as a whole, whatever their names: one port more opens a port."""

_FALSE_IS_KEPT: Final = frozenset({"automountServiceAccountToken", "allowPrivilegeEscalation"})
"""Fields in which false is not the same as nothing, so that the API server keeps it: without it pods may do more."""

_WHOLE_MAPS: Final = frozenset(
    {
        "selector",
        "podSelector",
        "namespaceSelector",
        "labelSelector",
        "nodeSelector",
        "matchLabels",
        "requiredDuringSchedulingIgnoredDuringExecution",
    }
)
"""Objects that server-side apply replaces as a whole: one key more narrows what they select, so it is drift too."""

_KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
_MISSING: Final = object()


def differences(desired: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[str, ...]:
    """Paths of the desired fields that the live object does not hold, sorted; empty when all are there.

    Paths look like ``spec.template.spec.containers[engine].args``.
    """
    return tuple(sorted(_dict_differences(desired, live, "")))


def _dict_differences(desired: Mapping[str, Any], live: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, wanted in desired.items():
        place = f"{path}.{key}" if path else str(key)
        yield from _value_differences(wanted, live.get(key, _MISSING), place, key, _parent(path))


def _value_differences(wanted: Any, found: Any, path: str, key: str, parent: str) -> Iterator[str]:
    if found is _MISSING or found is None:
        if not _empty(wanted) or (wanted is False and key in _FALSE_IS_KEPT):
            yield path
    elif isinstance(wanted, Mapping) and isinstance(found, Mapping):
        yield from _dict_differences(wanted, found, path)
        if key in _WHOLE_MAPS:
            yield from (
                f"{path}.{extra}" for extra in found if extra not in wanted and not _empty(found[extra])
            )
    elif isinstance(wanted, list) and isinstance(found, list):
        yield from _list_differences(wanted, found, path, key)
    elif not _same_scalar(wanted, found, is_quantity=parent in QUANTITY_MAPS or key in QUANTITY_FIELDS):
        yield path


def _list_differences(wanted: list[Any], found: list[Any], path: str, key: str) -> Iterator[str]:
    keys = None if path.startswith(_REPLACED_BELOW) else _merge_keys(key, wanted)
    if keys is None:
        if len(wanted) != len(found):
            yield path
            return
        for index, (left, right) in enumerate(zip(wanted, found, strict=True)):
            yield from _value_differences(left, right, f"{path}[{index}]", "", "")
        return
    by_key = {_identity(item, keys): item for item in found if isinstance(item, Mapping)}
    for item in wanted:
        identity = _identity(item, keys)
        yield from _value_differences(
            item, by_key.get(identity, _MISSING), f"{path}[{'/'.join(identity)}]", "", ""
        )


def _merge_keys(key: str, items: Sequence[Any]) -> tuple[str, ...] | None:
    for keys in _MERGE_KEYS.get(key, ()):
        if all(isinstance(item, Mapping) and keys[0] in item for item in items):
            return keys
    return None


def _identity(item: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(item.get(key, _KEY_DEFAULTS.get(key, ""))) for key in keys)


def _same_scalar(wanted: Any, found: Any, *, is_quantity: bool) -> bool:
    if is_quantity:
        left, right = _quantity(wanted), _quantity(found)
        if left is not None and right is not None:
            return left == right
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, (Mapping, list)) or isinstance(found, (Mapping, list)):
        return False
    return str(wanted) == str(found)


def _quantity(value: Any) -> Decimal | None:
    """Thousandths, rounded up as the API server does, of a quantity in any form that it reads; None for anything else."""
    text = str(value)
    suffix = next((end for end in (text[-2:], text[-1:]) if end in QUANTITY_FACTORS and end), "")
    try:
        number = Decimal(text.removesuffix(suffix) if suffix else text)
        if not number.is_finite():
            return None
        return (number * QUANTITY_FACTORS[suffix] * 1000).to_integral_value(ROUND_CEILING)
    except ArithmeticError:  # no number, or one beyond all bounds such as 1e999999999
        return None


def _empty(value: Any) -> bool:
    """Whether the API server may leave the value out: null, false, zero, an empty text, list or object of such."""
    if isinstance(value, Mapping):
        return all(_empty(item) for item in value.values())
    return value is None or value is False or value in ("", 0, [])


def _parent(path: str) -> str:
    return path.rpartition(".")[2]
