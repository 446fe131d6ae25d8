"""What one tick of one tier tells its metrics, as plain values: whoever decides fills them in, nothing here is computed.

Loads are in replicas at their work limit, times in seconds, shares between 0 and 1. None: not known, or there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Objective(StrEnum):
    """What a request is held against."""

    FIRST_TOKEN = "TimeToFirstToken"  # noqa: S105 - no password
    PER_TOKEN = "TimePerOutputToken"  # noqa: S105 - no password
    ALL = "All"
    """Every objective of the tier together: what its promise is about."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What the tier's spec promises, and within which bounds."""

    attainment: float
    """Share of requests that must meet all objectives, below 1."""
    first_token: float | None
    per_token: float | None
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The tier's replicas now."""

    desired: int
    """What the workload is asked for."""
    ready: int
    starting: int
    """Not ready yet, the failing ones included."""
    failing: int
    """Starting replicas that are counted on no longer."""
    recommended: int | None
    """What the decision asks for. None: no decision, so that what is desired stays recommended."""
    unplaced: int = 0
    """Called for, and without room in the pool."""
    placed: int | None = None
    """Replicas that hold their devices, those that start or drain included. None: those that are ready or starting."""


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """The decision of this tick and the figures behind it."""

    reason: str
    demand: float | None = None
    """Work that arrives."""
    expected: float | None = None
    """Work that is foretold for `horizon` seconds from now, backlog included."""
    horizon: float | None = None
    allowed: float | None = None
    """Share of requests that the plan may miss."""
    missing: float | None = None
    """Share of requests that are expected to miss."""
    floor: float | None = None
    """Share of requests that miss however many replicas there are."""
    holds: float | None = None
    """Load per replica up to which the allowance holds."""
    backlog: float | None = None
    """Requests that wait."""
    rate: float | None = None
    """Requests per second."""


@dataclass(frozen=True, slots=True)
class JudgedRequests:
    """Requests since the last tick that were held against an objective, and how many of them missed it."""

    requests: float
    misses: float


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Latency of the last minutes over all pods of the tier."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class ScrapeOutcome:
    """How the tick's reading of the pods went."""

    succeeded: int
    failures: Mapping[str, int] = field(default_factory=dict)
    """Pods that gave no sample, by cause."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Families that could not be read on pages that were, by kind of fault."""
    newest_at: float | None = None
    """When the newest sample was taken, seconds since 1970. None: none was taken; the last one stands."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a replica holds and costs."""

    devices: int
    """Accelerators of one replica; 0 on CPUs."""
    per_replica_hour: float | None
    """In the currency of the tier's spec."""


@dataclass(frozen=True, slots=True)
class StartSeconds:
    """How long starts took, asked for to ready."""

    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Everything that one tick of one tier tells."""

    promise: Promise
    replicas: ReplicaCounts
    decision: DecisionInputs
    scrape: ScrapeOutcome
    price: Price
    judged: Mapping[Objective, JudgedRequests] = field(default_factory=dict)
    """Since the last tick. An objective that nothing was held against is left out."""
    first_token: Quantiles | None = None
    per_token: Quantiles | None = None
    starts: StartSeconds | None = None
