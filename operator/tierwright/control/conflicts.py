"""Decides which of several tiers of one model and speed may go on: the older one (rule 10)."""

from collections.abc import Iterable, Mapping
from typing import Any

Served = tuple[str, str]
"""Served model name and speed."""


def served(tier: Mapping[str, Any]) -> Served | None:
    """What a stored tier claims to serve; None when its spec does not say so in a readable way."""
    spec = tier.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(model := spec.get("model"), Mapping):
        return None
    name, speed = model.get("name"), spec.get("speed")
    return (name, speed) if isinstance(name, str) and isinstance(speed, str) else None


def older_claimant(tier: Mapping[str, Any], rivals: Iterable[Mapping[str, Any]]) -> str | None:
    """The name of the tier that holds this tier's model and speed already; None when this tier may go on.

    ``rivals`` are the tiers of the namespace with the same model and speed; the tier itself may be among them.

    The order is that of creation, then of uid and name, so that all see the same winner. A tier that is being deleted
    holds its claim until it is gone, since its pods hold their devices until then.
    """
    older = [rival for rival in rivals if _age(rival) < _age(tier)]
    return str(min(older, key=_age)["metadata"]["name"]) if older else None


def _age(tier: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = tier["metadata"]
    return (
        str(metadata.get("creationTimestamp") or ""),
        str(metadata.get("uid") or ""),
        str(metadata.get("name") or ""),
    )
