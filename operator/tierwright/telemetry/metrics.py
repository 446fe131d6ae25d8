"""The operator's own metrics, in a registry that the caller passes, so that tests and processes never share one."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tierwright.telemetry import names

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one operator process."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        """Create the metrics in ``registry``; ValueError when it already holds them."""
        self.registry = registry
        self.reconciles = Counter(
            names.RECONCILES, "Reconciles of a tier by result.", ["result"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            names.RECONCILE_SECONDS, "Duration of one reconcile.", buckets=_SECONDS, registry=registry
        )
        self.queue_depth = Gauge(names.QUEUE_DEPTH, "Tiers that wait for a reconcile.", registry=registry)
        self.queue_oldest = Gauge(
            names.QUEUE_OLDEST, "How long the longest waiting tier is overdue.", registry=registry
        )
        self.api_requests = Counter(
            names.API_REQUESTS,
            "Requests to the API server by verb, kind and status code (0: no answer).",
            ["verb", "kind", "code"],
            registry=registry,
        )
        self.api_seconds = Histogram(
            names.API_SECONDS,
            "Duration of requests to the API server.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.applies = Counter(
            names.APPLIES,
            "Applies of children by kind and whether they changed it.",
            ["kind", "result"],
            registry=registry,
        )
        self.drift = Counter(
            names.DRIFT, "Children found changed by somebody else, by kind.", ["kind"], registry=registry
        )
        self.errors = Counter(
            names.ERRORS, "Failures of reconciles by reason.", ["reason"], registry=registry
        )
        self.events = Counter(
            names.EVENTS,
            "Kubernetes Events by result: written, repeated (not written again) or failed.",
            ["result"],
            registry=registry,
        )
        self.store_objects = Gauge(
            names.STORE_OBJECTS, "Objects held in the operator's store by kind.", ["kind"], registry=registry
        )
        self.resyncs = Counter(names.RESYNCS, "Full resyncs by result.", ["result"], registry=registry)
        self.resync_time = Gauge(names.RESYNC_TIME, "When the last full resync succeeded.", registry=registry)
        self.resync_repairs = Counter(
            names.RESYNC_REPAIRS,
            "Objects that a resync found missing, stale or gone in the store, by kind.",
            ["kind"],
            registry=registry,
        )
        self.watch_restarts = Counter(
            names.WATCH_RESTARTS, "Restarts of all watches after one died.", registry=registry
        )
        self._conditions = Gauge(
            names.TIER_CONDITION,
            "1 for the status that each condition of a tier has.",
            ["namespace", "name", "type", "status"],
            registry=registry,
        )
        self._condition_types: dict[tuple[str, str], frozenset[str]] = {}
        """By namespace and name of the tier."""
        Gauge(names.BUILD_INFO, "The operator's version.", ["version"], registry=registry).labels(
            version
        ).set(1)

    def watch_queue(self, depth: Callable[[], float], oldest: Callable[[], float]) -> None:
        """Reads the queue's two gauges whenever they are scraped."""
        self.queue_depth.set_function(depth)
        self.queue_oldest.set_function(oldest)

    def set_conditions(self, key: tuple[str, str], conditions: Iterable[tuple[str, str]]) -> None:
        """Publishes the conditions of this tier as (type, status); conditions that it no longer has are dropped."""
        current = dict(conditions)
        for type_ in self._condition_types.get(key, frozenset()) - current.keys():
            self._drop(key, type_)
        for type_, status in current.items():
            for each in names.CONDITION_STATUSES:
                self._conditions.labels(*key, type_, each).set(1.0 if each == status else 0.0)
        self._condition_types[key] = frozenset(current)

    def forget_tier(self, key: tuple[str, str]) -> None:
        """Drops all series of a tier that is gone."""
        for type_ in self._condition_types.pop(key, frozenset()):
            self._drop(key, type_)

    def _drop(self, key: tuple[str, str], type_: str) -> None:
        for each in names.CONDITION_STATUSES:
            self._conditions.remove(*key, type_, each)

    def render(self) -> bytes:
        """The page in Prometheus' text format."""
        page: bytes = generate_latest(self.registry)
        return page
