"""Puts together what one tick of one tier tells its metrics."""

from collections import Counter
from collections.abc import Iterable, Mapping

from tierwright.api.tier import InferenceTier
from tierwright.capacity.samples import Judged
from tierwright.control.autoscale_tier import Decided
from tierwright.control.decision_words import REASONS
from tierwright.control.latency_window import Percentiles
from tierwright.control.pool_budget import pool_of
from tierwright.control.tier_settings import latency_objectives
from tierwright.observe.readings import Scraped
from tierwright.telemetry.autoscaling_values import (
    DecisionInputs,
    JudgedRequests,
    Objective,
    Price,
    Promise,
    Quantiles,
    ReplicaCounts,
    ScrapeOutcome,
    StartSeconds,
    Tick,
)


def tick_of(decided: Decided, scraped: Iterable[Scraped]) -> Tick:
    """Everything that the tick tells; `scraped` are the readings of the tier's ready pods."""
    tier, settings, plan = decided.look.tier, decided.settings, decided.decision.inputs.plan
    inputs = decided.decision.inputs
    objectives = latency_objectives(tier)
    starts = decided.memory.state.starts
    return Tick(
        promise=Promise(
            settings.attainment,
            objectives.first_token,
            objectives.per_token,
            settings.minimum,
            settings.maximum,
        ),
        replicas=ReplicaCounts(
            desired=inputs.wanted,
            ready=inputs.ready,
            starting=inputs.starting,
            failing=inputs.failing,
            recommended=_recommended(decided),
            unplaced=decided.decision.unplaced,
            placed=decided.look.room.replicas.placed,
        ),
        decision=DecisionInputs(REASONS[decided.decision.reason])
        if plan is None
        else DecisionInputs(
            REASONS[decided.decision.reason],
            demand=plan.demand,
            expected=plan.expected,
            horizon=plan.horizon,
            allowed=plan.allowed,
            missing=plan.missing,
            floor=plan.floor,
            holds=plan.holds,
            backlog=plan.backlog,
            rate=plan.rate,
        ),
        scrape=_outcome(decided, scraped),
        price=_price(tier),
        judged=_judged(decided),
        first_token=_quantiles(decided.first_token),
        per_token=_quantiles(decided.per_token),
        starts=StartSeconds(
            starts.quantile(0.5, settings.cold_start), starts.quantile(0.9, settings.cold_start)
        ),
    )


def _recommended(decided: Decided) -> int | None:
    """Without a decision the last one stands, within the bounds of now."""
    shown, settings = decided.memory.shown, decided.settings
    if decided.decision.replicas is not None:
        return decided.decision.replicas
    if shown is None or shown.view.recommended is None:
        return None
    return min(settings.maximum, max(settings.minimum, shown.view.recommended))


def _outcome(decided: Decided, scraped: Iterable[Scraped]) -> ScrapeOutcome:
    failures: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    succeeded = 0
    for each in scraped:
        if each.page is None:
            failures[str(each.fault)] += 1
            continue
        succeeded += 1
        faults.update(str(fault.kind) for fault in each.page.faults)
    return ScrapeOutcome(succeeded, failures, faults, decided.measured.newest_at)


def _judged(decided: Decided) -> Mapping[Objective, JudgedRequests]:
    """By objective, and all together as the policy judges them."""
    samples = decided.measured.fresh
    found = {
        Objective.FIRST_TOKEN: _sum(each.first_token for each in samples),
        Objective.PER_TOKEN: _sum(each.per_token for each in samples),
    }
    found[Objective.ALL] = JudgedRequests(decided.requests, decided.misses)
    return {objective: each for objective, each in found.items() if each.requests > 0}


def _sum(judged: Iterable[Judged | None]) -> JudgedRequests:
    known = [each for each in judged if each is not None]
    return JudgedRequests(sum(each.requests for each in known), sum(each.misses for each in known))


def _price(tier: InferenceTier) -> Price:
    cost, pool = tier.spec.scaling.cost, pool_of(tier)
    return Price(
        0 if pool is None else pool[1],
        None if cost is None else float(cost.per_replica_hour),
    )


def _quantiles(found: Percentiles | None) -> Quantiles | None:
    return None if found is None else Quantiles(found.p50, found.p95, found.p99)
