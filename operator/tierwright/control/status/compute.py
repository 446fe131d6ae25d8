"""Puts the status of a tier together from one snapshot: conditions, numbers, and what the children say.

Pure: the same snapshot gives the same status at any time, except for the time of a condition that changed.
"""

from datetime import datetime
from typing import Final

from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.hardware import NodePool
from tierwright.api.status import Condition, EngineStatus, TierStatus, WorkloadRef
from tierwright.control.status.additions import addition_warnings
from tierwright.control.status.causes import causes
from tierwright.control.status.compiling import compile_cache_ready, compile_causes
from tierwright.control.status.draft import Draft
from tierwright.control.status.exactness import exactness
from tierwright.control.status.progress import reconciling, stalled
from tierwright.control.status.readiness import ready
from tierwright.control.status.scaling import (
    latency,
    measured_warnings,
    objectives_met,
    recommended,
    scaling_active,
)
from tierwright.control.status.scheduling import scheduled
from tierwright.control.status.startup import startup
from tierwright.control.status.words import WARNING_LIMIT
from tierwright.observe.snapshot import Snapshot, Stage

_MESSAGE_LIMIT: Final = 2000
_POOL_LIMIT: Final = 512
_MOST_WARNINGS: Final = 32
_REASONS: Final = frozenset(str(reason) for reason in Reason)


def compute_status(snapshot: Snapshot, previous: TierStatus, now: datetime) -> TierStatus:
    """The status to report; ``now`` (aware, UTC) stamps conditions whose status changed."""
    waited_for = compile_causes(snapshot)
    found = (*causes(snapshot), *waited_for)
    drafts: tuple[tuple[ConditionType, Draft], ...] = (
        (ConditionType.READY, ready(snapshot, found)),
        (ConditionType.RECONCILING, reconciling(snapshot, found)),
        (ConditionType.STALLED, stalled(snapshot, found)),
        (ConditionType.SCHEDULED, scheduled(snapshot)),
        (
            ConditionType.OBJECTIVES_MET,
            objectives_met(snapshot, _before(ConditionType.OBJECTIVES_MET, previous)),
        ),
        (
            ConditionType.SCALING_ACTIVE,
            scaling_active(snapshot, _before(ConditionType.SCALING_ACTIVE, previous)),
        ),
        (ConditionType.ROUTED, Draft("False", Reason.NO_GATEWAY, "no gateway routes requests to this tier")),
    )
    compiled = compile_cache_ready(snapshot, waited_for, _before(ConditionType.COMPILE_CACHE_READY, previous))
    if compiled is not None:
        drafts = (*drafts, (ConditionType.COMPILE_CACHE_READY, compiled))
    workload, facts = snapshot.workload, snapshot.facts
    kept = previous if workload is not None else TierStatus()
    return TierStatus(
        observed_generation=snapshot.generation,
        conditions=[
            _stamped(kind, _kept(kind, draft, snapshot, previous), snapshot.generation, previous, now)
            for kind, draft in drafts
        ],
        replicas=len(snapshot.active_pods),
        selector=snapshot.selector,
        ready_replicas=snapshot.ready_count,
        desired_replicas=snapshot.wanted,
        recommended_replicas=recommended(snapshot, previous),
        ready=f"{snapshot.ready_count}/{snapshot.wanted}",
        node_pool=node_pool_text(snapshot.tier.spec.hardware.node_pool) if snapshot.tier else kept.node_pool,
        workload=WorkloadRef(kind=workload.kind, name=workload.name) if workload else None,
        endpoint=facts.endpoint if facts else kept.endpoint,
        engine=EngineStatus(image=facts.engine_image, version=facts.engine_version) if facts else kept.engine,
        startup=startup(snapshot, previous.startup),
        latency=latency(snapshot, kept.latency),
        exactness=exactness(snapshot, kept.exactness),
        warnings=_warnings(
            (*facts.warnings, *measured_warnings(snapshot), *addition_warnings(snapshot.additions))
        )
        if facts
        else None,
    )


def node_pool_text(pool: NodePool) -> str | None:
    """The node pool in one line, such as ``karpenter.sh/nodepool=h100,zone in (a,b)``; None when it pins nothing."""
    parts = [f"{key}={value}" for key, value in sorted(pool.match_labels.items())]
    for rule in pool.match_expressions:
        values = f" ({','.join(rule.values)})" if rule.values else ""
        parts.append(f"{rule.key} {rule.operator}{values}")
    text = ",".join(parts)
    return (text if len(text) <= _POOL_LIMIT else f"{text[: _POOL_LIMIT - 1]}…") or None


def _kept(kind: ConditionType, draft: Draft, snapshot: Snapshot, previous: TierStatus) -> Draft:
    """What was said before, as long as the Deployment's controller has not looked at its last change.

    An annotation of somebody else's raises a Deployment's generation too, and for a moment nobody can tell it from a
    rollout. An edit of the tier is told at once, since what was said then was about an older generation.
    """
    workload = snapshot.workload
    if (
        kind not in (ConditionType.RECONCILING, ConditionType.STALLED)
        or snapshot.stage is not Stage.ACTIVE
        or snapshot.problems
        or snapshot.waiting_for
        or workload is None
        or workload.observed_generation >= workload.generation
    ):
        return draft
    before = _before(kind, previous)
    if before is None or before.observed_generation != snapshot.generation or before.reason not in _REASONS:
        return draft
    return Draft(before.status, Reason(before.reason), before.message)


def _before(kind: ConditionType, previous: TierStatus) -> Condition | None:
    return next((each for each in previous.conditions if each.type == kind), None)


def _stamped(
    kind: ConditionType, draft: Draft, generation: int, previous: TierStatus, now: datetime
) -> Condition:
    before = _before(kind, previous)
    same = before is not None and before.status == draft.status
    return Condition(
        type=kind,
        status=draft.status,
        reason=draft.reason,
        message=draft.message[:_MESSAGE_LIMIT],
        last_transition_time=(
            before.last_transition_time if before is not None and same else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        ),
        observed_generation=generation,
    )


def _warnings(warnings: tuple[str, ...]) -> list[str] | None:
    """None when there are none: an empty list would be a line without words in `kubectl describe`."""
    return [warning[:WARNING_LIMIT] for warning in warnings[:_MOST_WARNINGS]] or None
