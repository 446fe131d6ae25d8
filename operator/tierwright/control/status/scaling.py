"""Decides what the status says of objectives and replicas: ObjectivesMet, ScalingActive, latency, recommendation.

After a restart of the operator nothing is known for a while; until then what was said stays, if it was about this spec.
"""

from typing import Final

from tierwright.api.conditions import Reason
from tierwright.api.status import Condition, LatencyStatus, TierStatus
from tierwright.control.decision_words import SCALING_REASONS
from tierwright.control.status.draft import Draft
from tierwright.observe.snapshot import Snapshot, Stage

_MEASURED: Final = frozenset({Reason.OBJECTIVES_KEPT, Reason.OBJECTIVES_MISSED})


def objectives_met(snapshot: Snapshot, before: Condition | None) -> Draft:
    """Whether the last hour's requests met the objectives for the promised share."""
    scaling = snapshot.tier.spec.scaling if snapshot.tier else None
    objectives = scaling.objectives if scaling is not None else None
    if (
        scaling is None
        or objectives is None
        or (objectives.time_to_first_token is None and objectives.time_per_output_token is None)
    ):
        return Draft("Unknown", Reason.NO_METRICS, "no objectives are set")
    latency = snapshot.scaling.latency if snapshot.scaling is not None else None
    if latency is not None and latency.kept is not None:
        promised = f"{float(scaling.attainment) * 100:g}%"
        words = f"{latency.attained} of the last hour's requests met all objectives; {promised} are promised"
        if latency.kept:
            return Draft("True", Reason.OBJECTIVES_KEPT, words)
        return Draft("False", Reason.OBJECTIVES_MISSED, words)
    if (
        before is not None
        and before.observed_generation == snapshot.generation
        and before.reason in _MEASURED
    ):
        return Draft(before.status, Reason(before.reason), before.message)
    return Draft("Unknown", Reason.NO_METRICS, "too few requests were measured yet to tell")


def scaling_active(snapshot: Snapshot, before: Condition | None) -> Draft:
    """True while the operator sets the replicas from the load; else the message says who decides, or what is missing."""
    if snapshot.stage is Stage.DELETING:
        return Draft("False", Reason.DELETING, "the tier is being deleted")
    if snapshot.refusal is not None:
        return Draft(
            "False", snapshot.refusal.reason, "replicas stay as they are until the spec can be carried out"
        )
    if snapshot.stage is Stage.PAUSED or snapshot.scale is None:
        return Draft("False", Reason.PAUSED, "replicas stay as they are while the tier is paused")
    scale = snapshot.scale
    if (
        scale.reason is Reason.START_VALUE
        and snapshot.scaling is None
        and before is not None
        and before.observed_generation == snapshot.generation
        and before.reason in SCALING_REASONS
    ):
        return Draft(before.status, Reason(before.reason), before.message)
    return Draft("True" if scale.follows_load else "False", scale.reason, scale.message)


def latency(snapshot: Snapshot, previous: LatencyStatus | None) -> LatencyStatus | None:
    """The last figures that were measured; they stay while nothing is."""
    if snapshot.tier is None:
        return previous
    if snapshot.tier.spec.scaling.objectives is None:
        return None
    view = snapshot.scaling.latency if snapshot.scaling is not None else None
    found = None if view is None else (view.first_token_p95, view.per_token_p95, view.attained)
    if found is None or found == (None, None, None):
        return previous
    first, per_token, attained = found
    return LatencyStatus(
        time_to_first_token_p95=first, time_per_output_token_p95=per_token, attained=attained
    )


def recommended(snapshot: Snapshot, previous: TierStatus) -> int | None:
    """Replicas that the objectives call for; none in mode Manual, which nobody recommends anything to."""
    if snapshot.tier is None:
        return previous.recommended_replicas
    if snapshot.tier.spec.scaling.mode == "Manual":
        return None
    return snapshot.scaling.recommended if snapshot.scaling is not None else previous.recommended_replicas


def measured_warnings(snapshot: Snapshot) -> tuple[str, ...]:
    """What the pods' own pages show to be likely not meant, unless the spec alone says so already."""
    said = snapshot.facts.warnings if snapshot.facts is not None else ()
    found = snapshot.scaling.warnings if snapshot.scaling is not None else ()
    return tuple(
        f"spec.scaling.{words}"
        for words in found
        if not any(each.startswith(f"spec.scaling.{words.partition(':')[0]}:") for each in said)
    )
