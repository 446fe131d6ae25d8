"""One tick of one tier, pure: pages become samples, an observation, a decision; all that is remembered is a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.api.tier import InferenceTier
from tierwright.capacity import policy
from tierwright.capacity.decision import Decision
from tierwright.capacity.decision import Reason as Why
from tierwright.capacity.samples import Observation, row_of
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import TierState
from tierwright.control.decision_words import Words, words_of
from tierwright.control.latency_window import LatencyWindow, Percentiles
from tierwright.control.measuring import Measured, PodRecord, measure
from tierwright.control.observation import LivePod, observation_of
from tierwright.control.pod_samples import LatencyObjectives
from tierwright.control.pool_budget import within_share
from tierwright.control.pools import Room
from tierwright.control.shown import Figures, Shown, shown
from tierwright.control.start_times import SeenNode, measured_starts
from tierwright.control.tier_settings import LoopTiming, latency_objectives, tier_settings
from tierwright.control.wake import WAKE_ANNOTATION, wake
from tierwright.observe.readings import Scraped
from tierwright.observe.snapshot import ScalingView

_PODS_NAMED: Final = 3
_GRACE_TICKS: Final = 3
"""Ticks for which a pod that has just become ready may be silent: nobody has to act on that."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried of one tier from tick to tick."""

    uid: str
    state: TierState = field(default_factory=TierState)
    objectives: LatencyObjectives | None = None
    pods: Mapping[str, PodRecord] = field(default_factory=dict)
    """What was read of each pod, by uid."""
    looked_at: float | None = None
    """The tick before."""
    starts_known: frozenset[str] | None = None
    latency: LatencyWindow = field(default_factory=LatencyWindow)
    shown: Shown | None = None
    heard: str = ""
    """The wake annotation that was acted on."""
    heard_kept: str = ""
    """The same, as it lies in the cluster."""
    written_at: float | None = None
    """When the state was last written, or first was there to be written."""
    version: str = ""
    """The resourceVersion of the object that holds it; empty where there was none yet."""
    unread: str = ""
    """Why what was learned earlier cannot be read; empty where it was, or where there is nothing."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the loop found of a tier at `now`, seconds since 1970."""

    tier: InferenceTier
    pods: tuple[LivePod, ...]
    wanted: int
    """Replicas that the workload is asked for."""
    scraped: Mapping[str, Scraped]
    now: float
    room: Room
    """What its node pool has room for."""
    nodes: Mapping[str, SeenNode] = field(default_factory=dict)
    """What is known of the nodes of all tiers."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The tier's decision, within what its pool grants, and what it came from."""

    memory: Memory
    look: Look
    settings: TierSettings
    measured: Measured
    observation: Observation
    decision: Decision
    requests: float
    """Requests since the last tick that were held against the objectives."""
    misses: float
    first_token: Percentiles | None
    """Of the last minutes."""
    per_token: Percentiles | None
    idle: bool


def decide(memory: Memory, look: Look, timing: LoopTiming) -> Decided:
    """Measure and decide; nothing of it is shown yet."""
    settings, objectives = tier_settings(look.tier, timing), latency_objectives(look.tier)
    if memory.objectives != objectives:  # what was shown was held against another promise
        memory = replace(memory, objectives=objectives, latency=LatencyWindow(), shown=None)
    measured = measure(
        memory.pods,
        look.pods,
        look.scraped,
        objectives,
        look.now,
        elapsed=None if memory.looked_at is None else look.now - memory.looked_at,
        grace=_GRACE_TICKS * settings.tick,
    )
    settings = replace(settings, lag=measured.lag(settings.lag, settings.tick))
    starts = measured_starts(look.pods, memory.starts_known, look.nodes)
    woken = wake(
        look.tier.metadata.annotations.get(WAKE_ANNOTATION),
        memory.heard,
        asked=look.wanted,
        now=datetime.fromtimestamp(look.now, UTC),
        hold=settings.hold,
    )
    observation = observation_of(
        look.pods,
        measured.samples,
        wanted=look.wanted,
        started=starts.seconds,
        now=look.now,
        placeable=look.room.placeable,
        queued=woken.queued,
    )
    step = policy.step(settings, memory.state, observation, look.now)
    row = row_of(observation, look.now, young=0.0)
    new = row_of(replace(observation, pods=measured.fresh, ready=len(measured.fresh)), look.now, young=0.0)
    requests, misses = (0.0, 0.0) if new is None else (new.requests, new.misses)
    firsts = [each.first_token for each in measured.deltas]
    per_tokens = [each.per_output_token for each in measured.deltas]
    latency = memory.latency.seen(
        look.now,
        first_token=[each for each in firsts if each is not None and each.count > 0],
        per_token=[each for each in per_tokens if each is not None and each.count > 0],
        requests=requests,
        misses=misses,
    )
    after = replace(
        memory,
        state=step.state,
        pods=measured.records,
        looked_at=look.now,
        starts_known=starts.known,
        latency=latency,
        heard=woken.heard,
    )
    return Decided(
        memory=after,
        look=look,
        settings=settings,
        measured=measured,
        observation=observation,
        decision=_not_fewer(
            within_share(step.decision, look.wanted, look.room.ceiling), memory, settings, look
        ),
        requests=requests,
        misses=misses,
        first_token=latency.first_token(look.now),
        per_token=latency.per_token(look.now),
        idle=row is None or (row.arrivals, row.running, row.backlog, row.requests) == (0, 0, 0, 0),
    )


def _not_fewer(decision: Decision, memory: Memory, settings: TierSettings, look: Look) -> Decision:
    """While what was learned earlier cannot be read nothing shrinks, but for the bound that the user sets."""
    held = min(look.wanted, settings.maximum)
    if not memory.unread or decision.replicas is None or decision.replicas >= held:
        return decision
    return replace(decision, replicas=held, reason=Why.WINDOW_NOT_FULL)


def conclude(decided: Decided) -> Memory:
    """What is remembered and shown after the decision."""
    memory, look, scaling = decided.memory, decided.look, decided.look.tier.spec.scaling
    fresh = _fresh(decided, memory.shown.view if memory.shown is not None else None)
    first, per_token = decided.first_token, decided.per_token
    figures = Figures(
        None if first is None else first.p95,
        None if per_token is None else per_token.p95,
        memory.latency.attained(),
    )
    if scaling.mode == "Manual":
        fresh = replace(fresh, wanted=None, recommended=None, reason=Reason.MANUAL, message="")
    elif scaling.mode == "Recommend":
        fresh = replace(fresh, wanted=None)
    after = shown(
        memory.shown,
        fresh,
        figures,
        promised=float(scaling.attainment),
        idle=decided.idle,
        now=look.now,
    )
    return replace(memory, shown=after)


def _fresh(decided: Decided, last: ScalingView | None) -> ScalingView:
    """What this tick alone would show, but for the latency."""
    decision, look = decided.decision, decided.look
    lacking = decision.reason in (Why.NO_METRICS, Why.PARTIAL_METRICS)
    if lacking and not decided.measured.silent:
        # All pods answer; a new one's first interval is not over. That is no outage, so the last word stands.
        if last is not None:
            return replace(last, warnings=decided.measured.warnings)
        words = Words(Reason.START_VALUE, "the first figures of its pods are being taken", False)
    else:
        words = words_of(decision, _trouble(decided.measured.silent), decided.settings.attainment)
    if decided.memory.unread:
        told = f"what was learned earlier cannot be read, so no replica goes: {decided.memory.unread}; {words.message}"
        words = replace(words, reason=Reason.LEARNED_STATE_UNREADABLE, message=told)
    recommended = decision.replicas
    if recommended is None and last is not None:
        recommended = last.recommended
    return ScalingView(
        wanted=decision.replicas,
        recommended=recommended,
        reason=words.reason,
        message=words.message,
        follows_load=words.follows_load,
        warnings=decided.measured.warnings,
        instead_of=look.wanted if decision.replicas is not None and decision.replicas < look.wanted else None,
    )


def _trouble(silent: tuple[str, ...]) -> str:
    more = len(silent) - _PODS_NAMED
    named = "; ".join(silent[:_PODS_NAMED])
    return f"{named} and {more} more" if more > 0 else named
