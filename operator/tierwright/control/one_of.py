"""Decides which field, set by somebody else, shuts ours out: the API server takes only one of the two.

Server-side apply cannot take a field away that another manager owns. Where the API allows only one of two fields, the
other's presence makes each apply of ours a 422 for ever, so it is removed by a merge patch that sets ours with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tierwright.kube.resources import Object


@dataclass(frozen=True)
class _OneOf:
    """In objects of ``kind``, below ``parent``: ``rival`` may not stand beside ``ours``."""

    kind: str
    parent: tuple[str, ...]
    ours: str
    rival: str


_TABLE: Final = (
    _OneOf("PodDisruptionBudget", ("spec",), "maxUnavailable", "minAvailable"),
    _OneOf("Deployment", ("spec", "strategy"), "type", "rollingUpdate"),
)


def displacing_patch(desired: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """A merge patch that sets our field and removes its rival; None where no rival stands in the way."""
    for one_of in _TABLE:
        if desired.get("kind") != one_of.kind:
            continue
        wanted, found = _below(desired, one_of.parent), _below(live, one_of.parent)
        if one_of.ours in wanted and one_of.rival in found and one_of.rival not in wanted:
            patch: Object = {one_of.ours: wanted[one_of.ours], one_of.rival: None}
            for name in reversed(one_of.parent):
                patch = {name: patch}
            return patch
    return None


def _below(obj: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for name in path:
        obj = obj.get(name) or {}
    return obj
