"""One tier as it is planned for, the settings that are compared, and what came of each."""

from dataclasses import dataclass, replace

from tierwright.capacity.settings import TierSettings
from tierwright.planning.engine import Hardware
from tierwright.planning.fleet import Change, Outcome, Run


@dataclass(frozen=True, slots=True)
class Case:
    """A tier, the engine that serves it, and its promise; times in seconds."""

    name: str
    speed: str
    engine: Hardware
    first_token: float
    per_token: float
    """Objectives; infinite where there is none."""
    settings: TierSettings
    """As the tier has them."""
    start: int
    """Replicas at the beginning."""
    devices: int = 1
    """Accelerators of one replica; 1 on CPUs."""
    price: float | None = None
    """Of one replica for one hour."""
    chunk: int = 2048
    sequences: int = 256
    score_from: float = 0.0
    """Seconds of the trace that only warm up whoever learns."""

    @property
    def promise(self) -> float:
        """Share of requests that must meet all objectives."""
        return self.settings.attainment


@dataclass(frozen=True, slots=True)
class Static:
    """A fixed number of replicas."""

    replicas: int


@dataclass(frozen=True, slots=True)
class Scaled:
    """The autoscaler with these fields of a tier."""

    minimum: int
    attainment: float
    hold: float
    """scaleDown.stabilization in seconds."""


Setting = Static | Scaled


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one setting."""

    setting: Setting
    requests: int
    attainment: float
    """Share of requests that met all objectives."""
    first_token: float
    per_token: float
    """Share of requests that met the one objective."""
    replica_hours: float
    """Starting and draining replicas included."""
    replicas: float
    """Mean over the same time."""
    peak: int
    violation_minutes: int
    """Minutes in which more requests missed than the promise allows."""
    reversals: int
    """Changes of direction."""
    changes: tuple[Change, ...]
    minutes: tuple[tuple[int, int, int], ...]
    """Minute of arrival, requests, misses."""


def as_written(case: Case) -> Scaled:
    """The tier's own setting."""
    return Scaled(case.settings.minimum, case.settings.attainment, case.settings.hold)


def settings_of(case: Case, setting: Scaled) -> TierSettings:
    """The autoscaler's settings for it."""
    return replace(case.settings, minimum=setting.minimum, attainment=setting.attainment, hold=setting.hold)


def run_of(case: Case, setting: Setting) -> Run:
    """How its fleet is run."""
    return Run(
        case.engine,
        ttft=case.first_token,
        tpot=case.per_token,
        cold_start=case.settings.cold_start,
        tick=case.settings.tick,
        lag=case.settings.lag,
        initial=setting.replicas if isinstance(setting, Static) else max(setting.minimum, case.start),
        most=setting.replicas if isinstance(setting, Static) else case.settings.maximum,
        chunk=case.chunk,
        sequences=case.sequences,
        score_from=case.score_from,
    )


def figures_of(setting: Setting, outcome: Outcome) -> Figures:
    """The figures of a run."""
    requests = max(1, outcome.requests)
    return Figures(
        setting=setting,
        requests=outcome.requests,
        attainment=outcome.attainment,
        first_token=1 - outcome.first_token_misses / requests,
        per_token=1 - outcome.per_token_misses / requests,
        replica_hours=outcome.hours,
        replicas=outcome.hours * 3600 / max(1.0, outcome.seconds),
        peak=outcome.peak,
        violation_minutes=outcome.violation_minutes,
        reversals=outcome.reversals,
        changes=tuple(outcome.changes),
        minutes=tuple((minute, seen, missed) for minute, (seen, missed) in sorted(outcome.by_minute.items())),
    )
