"""Decides which of several tiers of one model and speed may go on: the one that came first (rule 10)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tierwright.api.conditions import ConditionType, Reason

Served = tuple[str, str]
"""Served model name and speed."""


def served(tier: Mapping[str, Any]) -> Served | None:
    """What a stored tier claims to serve; None when its spec does not say so in a readable way."""
    spec = tier.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(model := spec.get("model"), Mapping):
        return None
    name, speed = model.get("name"), spec.get("speed")
    return (name, speed) if isinstance(name, str) and isinstance(speed, str) else None


def earlier_claimant(
    tier: Mapping[str, Any], rivals: Iterable[Mapping[str, Any]], with_workload: Collection[str] = ()
) -> str | None:
    """The name of the tier that holds this tier's model and speed already; None when this tier may go on.

    ``rivals`` are the tiers of the namespace with the same model and speed; the tier itself may be among them.
    ``with_workload`` are the uids of those that control a live workload.

    The order is that of creation. The API server counts whole seconds, so among tiers of one second the one that is
    at work comes first, then the name decides: all see the same winner, and nobody who serves has to yield to a tier
    that came a moment later. A tier that is being deleted holds its claim until it is gone, since its pods hold their
    devices until then.
    """

    def order(each: Mapping[str, Any]) -> tuple[str, bool, str]:
        metadata = each["metadata"]
        at_work = _is_at_work(each, has_workload=metadata.get("uid") in with_workload)
        return str(metadata.get("creationTimestamp") or ""), not at_work, _name(each)

    earlier = [rival for rival in rivals if order(rival) < order(tier)]
    return _name(min(earlier, key=order)) if earlier else None


def _is_at_work(tier: Mapping[str, Any], *, has_workload: bool) -> bool:
    """Whether children were made for the tier, and no conflict keeps it from serving, by its own status.

    Nothing is taken for granted of a stored status: it may be older than today's schema, edited by hand, or lost; so
    a live workload says as well that children were made.
    """
    status = tier.get("status")
    status = status if isinstance(status, Mapping) else {}
    if not has_workload and not status.get("endpoint"):
        return False
    conditions = status.get("conditions")
    return not any(
        isinstance(each, Mapping)
        and each.get("type") == ConditionType.READY
        and each.get("reason") == Reason.CONFLICT
        for each in (conditions if isinstance(conditions, list) else ())
    )


def _name(tier: Mapping[str, Any]) -> str:
    return str(tier["metadata"].get("name") or "")
