"""Made-up ticks for the metrics about autoscaling."""

from prometheus_client import CollectorRegistry

from tierwright.telemetry.autoscaling import AutoscalingMetrics
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

REASONS = ("Steady", "DemandGrew", "PoolFull", "AtMaximum", "MetricsUnavailable")
CAUSES = ("TimedOut", "Refused")
FAULTS = ("Missing", "Malformed")

PROMISE = Promise(attainment=0.95, first_token=0.5, per_token=0.025, minimum=1, maximum=8)
REPLICAS = ReplicaCounts(desired=3, ready=2, starting=1, failing=0, recommended=4, unplaced=1)
DECISION = DecisionInputs(
    reason="DemandGrew",
    demand=2.5,
    expected=3.1,
    horizon=205.0,
    allowed=0.05,
    missing=0.031,
    floor=0.002,
    holds=0.62,
    backlog=7.0,
    rate=4.4,
)
JUDGED = {
    Objective.FIRST_TOKEN: JudgedRequests(40.0, 1.0),
    Objective.PER_TOKEN: JudgedRequests(38.0, 0.5),
    Objective.ALL: JudgedRequests(40.0, 1.5),
}


def metrics(registry: CollectorRegistry | None = None) -> AutoscalingMetrics:
    """Metrics in a registry of their own, with the words above."""
    return AutoscalingMetrics(registry or CollectorRegistry(), reasons=REASONS, causes=CAUSES, faults=FAULTS)


def tick(
    newest_at: float | None, replicas: ReplicaCounts = REPLICAS, decision: DecisionInputs = DECISION
) -> Tick:
    """A tick in which everything is told."""
    return Tick(
        promise=PROMISE,
        replicas=replicas,
        decision=decision,
        scrape=ScrapeOutcome(2, {"TimedOut": 1}, {"Missing": 2}, newest_at),
        price=Price(devices=4, per_replica_hour=36.0),
        judged=JUDGED,
        first_token=Quantiles(0.12, 0.45, 0.8),
        per_token=Quantiles(0.011, 0.019, 0.027),
        starts=StartSeconds(140.0, 180.0),
    )
