"""Marks on fields that pydantic cannot express and the CRD needs; put into ``Annotated[...]``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntOrString:
    """The field is an integer or a string on the wire (``x-kubernetes-int-or-string``)."""


@dataclass(frozen=True)
class ListMap:
    """The list is a map keyed by these fields of its items (``x-kubernetes-list-type: map``)."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class ListSet:
    """The list holds each value once (``x-kubernetes-list-type: set``)."""


@dataclass(frozen=True)
class Atomic:
    """The list or object is replaced as a whole by server-side apply."""


@dataclass(frozen=True)
class PreserveUnknownFields:
    """Anything may stand below this field and is kept (``x-kubernetes-preserve-unknown-fields``)."""
