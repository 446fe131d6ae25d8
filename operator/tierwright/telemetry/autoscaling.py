"""Publishes what the autoscaler saw, foretold and decided for each tier: `record` once a tick, `forget` when a tier is gone.

Requests, decisions, devices and money are counters, so that rules take shares over any window and a restart loses nothing of
them. Series are bounded: per tier a fixed set, with words that were declared beforehand.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary

from tierwright.telemetry import autoscaling_names as names
from tierwright.telemetry.autoscaling_values import DecisionInputs, Objective, Quantiles, ReplicaCounts, Tick

LONGEST_TICK: Final = 120.0
"""Seconds of replicas that are booked at most for one tick: whether they were there in a longer gap nobody knows."""
MOST_PENDING: Final = 720
"""Forecasts of one tier that wait for their time: two hours at a tick of ten seconds."""
_HOUR: Final = 3600.0

Key = tuple[str, str]
"""Namespace and name of a tier."""


@dataclass(slots=True)
class _Tier:
    """What is carried from tick to tick."""

    last_at: float | None = None
    foretold: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST_PENDING))
    """Forecasts as (for when, load), in order of time."""


class AutoscalingMetrics:
    """All metrics about autoscaling of one operator process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        reasons: Iterable[str],
        causes: Iterable[str],
        faults: Iterable[str],
    ) -> None:
        """Create the metrics in `registry`; ValueError when it already holds them.

        Args:
            registry: where they are served from.
            reasons: every reason that a decision may have.
            causes: every cause for which a pod may give no sample.
            faults: every kind of fault that a page may have.
        """
        self._reasons, self._causes, self._faults = tuple(reasons), tuple(causes), tuple(faults)
        self._tiers: dict[Key, _Tier] = {}

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*names.TIER_LABELS, *labels), registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*names.TIER_LABELS, *labels), registry=registry)

        self._latency = {
            Objective.FIRST_TOKEN: gauge(
                names.FIRST_TOKEN, "Time to first token over the last minutes.", "percentile"
            ),
            Objective.PER_TOKEN: gauge(
                names.PER_TOKEN, "Time per output token over the last minutes.", "percentile"
            ),
        }
        self._objective = gauge(names.OBJECTIVE, "Latency that the tier's spec promises.", "objective")
        self._promise = gauge(names.PROMISE, "Share of requests that must meet all objectives.")
        self._judged = counter(names.JUDGED, "Requests held against an objective.", "objective")
        self._missed = counter(names.MISSED, "Requests that missed an objective.", "objective")
        self._replicas = {
            "desired": gauge(names.DESIRED, "Replicas that the workload is asked for."),
            "ready": gauge(names.READY, "Replicas that are ready."),
            "starting": gauge(names.STARTING, "Replicas that are not ready yet."),
            "failing": gauge(names.FAILING, "Starting replicas that take far too long to be counted on."),
            "unplaced": gauge(
                names.UNPLACED, "Replicas that are called for and have no room in the node pool."
            ),
            "recommended": gauge(
                names.RECOMMENDED, "Replicas that the autoscaler asks for; what an HPA or KEDA may follow."
            ),
            "minimum": gauge(names.MINIMUM, "Fewest replicas that the spec allows."),
            "maximum": gauge(names.MAXIMUM, "Most replicas that the spec allows."),
        }
        self._decisions = counter(names.DECISIONS, "Decisions by reason.", "reason")
        self._inputs = {
            "demand": gauge(names.DEMAND, "Work that arrives, in replicas at their limit."),
            "expected": gauge(
                names.EXPECTED, "Work foretold for the horizon, in replicas, backlog included."
            ),
            "horizon": gauge(names.HORIZON, "Time until a replica that is asked for now is ready."),
            "allowed": gauge(
                names.ALLOWED, "Share of requests that may miss over a day, unpreventable ones included."
            ),
            "missing": gauge(names.MISSING, "Share of requests that are expected to miss."),
            "floor": gauge(names.FLOOR, "Share of requests that miss however many replicas there are."),
            "holds": gauge(names.HOLDS, "Load per replica up to which the allowance holds."),
            "backlog": gauge(names.BACKLOG, "Requests that wait."),
            "rate": gauge(names.RATE, "Requests that arrive per second."),
        }
        self._error = gauge(
            names.FORECAST_ERROR, "Work that arrives less what was foretold for now, in replicas."
        )
        self._absolute_error = Summary(
            names.FORECAST_ABSOLUTE_ERROR,
            "Size of the forecast's error, in replicas.",
            names.TIER_LABELS,
            registry=registry,
        )
        self._accelerator_seconds = counter(
            names.ACCELERATOR_SECONDS, "Accelerators held, starting and draining replicas included."
        )
        self._replica_seconds = counter(
            names.REPLICA_SECONDS, "Replicas that held their place, starting and draining ones included."
        )
        self._cost = counter(names.COST, "Cost of those replicas, in the currency of scaling.cost.")
        self._starts = gauge(names.START_SECONDS, "Time from asked for to ready.", "percentile")
        self._scrapes = counter(names.SCRAPES, "Pods that gave a sample.")
        self._failures = counter(names.SCRAPE_FAILURES, "Pods that gave no sample, by cause.", "cause")
        self._page_faults = counter(
            names.PAGE_FAULTS, "Families of metrics that could not be read, by kind of fault.", "kind"
        )
        self._newest = gauge(names.NEWEST_SAMPLE, "When the newest sample was taken.")

    def record(self, key: Key, now: float, tick: Tick) -> None:
        """Publish one tick of one tier at `now`, seconds since 1970."""
        tier = self._tiers.get(key)
        if tier is None:
            tier = self._tiers[key] = _Tier()
            self._start_counters(key)
        self._record_promise(key, tick)
        self._record_replicas(key, tick.replicas)
        self._record_decision(key, tick.decision)
        self._record_forecast(key, tier, now, tick.decision)
        self._record_cost(key, tier, now, tick)
        self._record_scrape(key, tick)
        tier.last_at = now

    def forget(self, key: Key) -> None:
        """Drop every series of a tier that is gone."""
        if self._tiers.pop(key, None) is None:
            return
        labels = dict(zip(names.TIER_LABELS, key, strict=True))
        for metric in (
            *self._latency.values(),
            *self._replicas.values(),
            *self._inputs.values(),
            self._objective,
            self._promise,
            self._judged,
            self._missed,
            self._decisions,
            self._error,
            self._absolute_error,
            self._accelerator_seconds,
            self._replica_seconds,
            self._cost,
            self._starts,
            self._scrapes,
            self._failures,
            self._page_faults,
            self._newest,
        ):
            metric.remove_by_labels(labels)

    def _start_counters(self, key: Key) -> None:
        """Begin at 0 whatever is counted: the growth of a series that begins at 1 is not seen by a query."""
        for objective in Objective:
            self._judged.labels(*key, objective)
            self._missed.labels(*key, objective)
        for metric, words in (
            (self._decisions, self._reasons),
            (self._failures, self._causes),
            (self._page_faults, self._faults),
        ):
            for word in words:
                metric.labels(*key, word)
        for metric in (self._accelerator_seconds, self._replica_seconds, self._cost, self._scrapes):
            metric.labels(*key)

    def _record_promise(self, key: Key, tick: Tick) -> None:
        promise = tick.promise
        self._promise.labels(*key).set(promise.attainment)
        for objective, limit, quantiles in (
            (Objective.FIRST_TOKEN, promise.first_token, tick.first_token),
            (Objective.PER_TOKEN, promise.per_token, tick.per_token),
        ):
            _set_or_remove(self._objective, (*key, objective), limit)
            self._record_latency(key, self._latency[objective], quantiles)
        for objective, judged in tick.judged.items():
            self._judged.labels(*key, objective).inc(judged.requests)
            self._missed.labels(*key, objective).inc(judged.misses)
        self._replicas["minimum"].labels(*key).set(promise.minimum)
        self._replicas["maximum"].labels(*key).set(promise.maximum)

    def _record_latency(self, key: Key, metric: Gauge, quantiles: Quantiles | None) -> None:
        """Without requests there is no latency: the series goes, since an old figure would read as a new one."""
        values = (None, None, None) if quantiles is None else (quantiles.p50, quantiles.p95, quantiles.p99)
        for percentile, value in zip(names.PERCENTILES, values, strict=True):
            _set_or_remove(metric, (*key, percentile), value)

    def _record_replicas(self, key: Key, replicas: ReplicaCounts) -> None:
        recommended = replicas.desired if replicas.recommended is None else replicas.recommended
        for field_, count in (
            ("desired", replicas.desired),
            ("ready", replicas.ready),
            ("starting", replicas.starting),
            ("failing", replicas.failing),
            ("unplaced", replicas.unplaced),
            ("recommended", recommended),
        ):
            self._replicas[field_].labels(*key).set(count)

    def _record_decision(self, key: Key, decision: DecisionInputs) -> None:
        self._decisions.labels(*key, _declared(decision.reason, self._reasons)).inc()
        for field_, metric in self._inputs.items():
            _set_or_remove(metric, key, getattr(decision, field_))

    def _record_forecast(self, key: Key, tier: _Tier, now: float, decision: DecisionInputs) -> None:
        """Hold what was foretold for now against the demand of now, and keep what is foretold now."""
        due: float | None = None
        while tier.foretold and tier.foretold[0][0] <= now:
            due = tier.foretold.popleft()[1]
        if due is not None and decision.demand is not None:
            error = decision.demand - due
            self._error.labels(*key).set(error)
            self._absolute_error.labels(*key).observe(abs(error))
        if decision.expected is None or decision.horizon is None:
            return
        at = now + decision.horizon
        while tier.foretold and tier.foretold[-1][0] >= at:
            tier.foretold.pop()  # the horizon has become shorter: the newer forecast is the better one
        tier.foretold.append((at, decision.expected))

    def _record_cost(self, key: Key, tier: _Tier, now: float, tick: Tick) -> None:
        if tick.starts is not None:
            values = (tick.starts.p50, tick.starts.p90)
            for percentile, value in zip(names.START_PERCENTILES, values, strict=True):
                self._starts.labels(*key, percentile).set(value)
        if tier.last_at is None:
            return
        placed = tick.replicas.placed
        if placed is None:
            placed = tick.replicas.ready + tick.replicas.starting
        seconds = placed * min(LONGEST_TICK, max(0.0, now - tier.last_at))
        self._replica_seconds.labels(*key).inc(seconds)
        self._accelerator_seconds.labels(*key).inc(seconds * tick.price.devices)
        if tick.price.per_replica_hour is not None:
            self._cost.labels(*key).inc(seconds / _HOUR * tick.price.per_replica_hour)

    def _record_scrape(self, key: Key, tick: Tick) -> None:
        scrape = tick.scrape
        self._scrapes.labels(*key).inc(scrape.succeeded)
        _count(self._failures, key, scrape.failures, self._causes)
        _count(self._page_faults, key, scrape.faults, self._faults)
        if scrape.newest_at is not None:
            self._newest.labels(*key).set(scrape.newest_at)


def _declared(word: str, words: tuple[str, ...]) -> str:
    return word if word in words else names.OTHER


def _count(metric: Counter, key: Key, counts: Mapping[str, int], words: tuple[str, ...]) -> None:
    for word, count in counts.items():
        metric.labels(*key, _declared(word, words)).inc(count)


def _set_or_remove(metric: Gauge, labels: tuple[str, ...], value: float | None) -> None:
    if value is None:
        metric.remove(*labels)
    else:
        metric.labels(*labels).set(value)
