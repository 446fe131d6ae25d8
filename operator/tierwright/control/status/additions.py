"""Says which fields of its children somebody else added: a warning that stays as long as they do, and one Event."""

from collections.abc import Iterable
from typing import Final

from tierwright.observe.snapshot import ChildAdditions

_SHOWN: Final = 5
_STAYS: Final = ": the tier sets nothing there, so it stays"


def addition_warnings(found: Iterable[ChildAdditions]) -> tuple[str, ...]:
    """One line for each child and field manager."""
    return tuple(
        f"{each.child}: {_listed(each.fields)} set by {each.manager}{_STAYS}; remove it if it is not meant"
        + (", or write it into spec.podTemplate" if _is_of_pods(each) else "")
        for each in found
    )


def new_additions(before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    """The warnings of ``after`` that are such lines and did not stand before."""
    known = set(before)
    return tuple(line for line in after if _STAYS in line and line not in known)


def _listed(fields: tuple[str, ...]) -> str:
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return ", ".join(fields[:_SHOWN]) + more


def _is_of_pods(each: ChildAdditions) -> bool:
    return all(field.startswith("spec.template.") for field in each.fields)
