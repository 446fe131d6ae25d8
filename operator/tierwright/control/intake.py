"""Decides how far the reconcile of a stored tier may go: deleting, refused, paused or active, and with which spec."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tierwright.api.conditions import Reason
from tierwright.api.parse import parse_tier
from tierwright.api.tier import PAUSED_ANNOTATION, InferenceTier
from tierwright.control.conflicts import earlier_claimant
from tierwright.kube.resources import Object
from tierwright.observe.snapshot import Finding, Stage


@dataclass(frozen=True)
class Intake:
    """The stage, the parsed tier where it can be read, and why not to go on where that is so."""

    stage: Stage
    tier: InferenceTier | None = None
    refusal: Finding | None = None


def take_in(obj: Object, rivals: Iterable[Mapping[str, Any]], with_workload: Collection[str] = ()) -> Intake:
    """What to do with the tier as it is stored; ``rivals`` are the tiers of the same model and speed, and
    ``with_workload`` the uids of those among them that control a live workload.

    A status that today's models do not accept is no reason to refuse a spec that they do, so it is left out here.
    """
    metadata = obj["metadata"]
    parsed = parse_tier({key: value for key, value in obj.items() if key != "status"}, strict=False)
    if metadata.get("deletionTimestamp"):
        return Intake(Stage.DELETING, parsed.tier)
    if parsed.tier is None:
        words = "; ".join(str(error) for error in parsed.errors)
        return Intake(Stage.REFUSED, None, Finding(Reason.INVALID_SPEC, words))
    if is_paused(metadata):
        return Intake(Stage.PAUSED, parsed.tier)
    if holder := earlier_claimant(obj, rivals, with_workload):
        return Intake(Stage.REFUSED, parsed.tier, _claimed_by(parsed.tier, holder))
    return Intake(Stage.ACTIVE, parsed.tier)


def is_paused(metadata: Mapping[str, Any]) -> bool:
    """Whether a person asked for hands off; only the word ``false`` takes the annotation back."""
    value = (metadata.get("annotations") or {}).get(PAUSED_ANNOTATION)
    return value is not None and str(value).lower() != "false"


def _claimed_by(tier: InferenceTier, holder: str) -> Finding:
    return Finding(
        Reason.CONFLICT,
        f"InferenceTier {holder} came first and serves model {tier.spec.model.name} at speed {tier.spec.speed} already;"
        " delete one of them, or recreate this one with another speed",
    )
