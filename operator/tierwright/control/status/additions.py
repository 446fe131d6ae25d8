"""Says which fields of its children somebody else added: a warning that stays as long as they do, and one Event."""

from collections.abc import Iterable
from typing import Final

from tierwright.control.status.words import WARNING_LIMIT
from tierwright.observe.snapshot import ChildAdditions

_SHOWN: Final = 5


def addition_warnings(found: Iterable[ChildAdditions]) -> tuple[str, ...]:
    """One line for each child and field manager, as it stands in the status."""
    return tuple(map(_line, found))


def new_additions(
    before: Iterable[str], after: Iterable[str], found: Iterable[ChildAdditions]
) -> tuple[str, ...]:
    """The warnings of ``after`` that tell of what was ``found`` and did not stand before."""
    known, told = set(before), set(addition_warnings(found))
    return tuple(line for line in after if line in told and line not in known)


def _line(each: ChildAdditions) -> str:
    words = (
        f"{each.child}: {_listed(each.fields)} set by {each.manager}: the tier sets nothing there, so it stays;"
        " remove it if it is not meant"
    )
    if _is_of_pods(each):
        words += ", or write it into spec.podTemplate"
    return words[:WARNING_LIMIT]


def _listed(fields: tuple[str, ...]) -> str:
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return ", ".join(fields[:_SHOWN]) + more


def _is_of_pods(each: ChildAdditions) -> bool:
    return all(field.startswith("spec.template.") for field in each.fields)
