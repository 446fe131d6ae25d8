"""What a tier promises and allows, as the autoscaler takes it."""

from dataclasses import dataclass

from tierwright.capacity.work import Accelerator


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Settings of one tier; times in seconds."""

    minimum: int
    maximum: int
    attainment: float
    """Share of requests that must meet the objectives, below 1."""
    accelerator: Accelerator
    cold_start: float = 180.0
    """First guess of the time from asked for to ready."""
    hold: float = 600.0
    """How long a smaller number must be enough before a replica goes."""
    tick: float = 10.0
    lag: float = 15.0
    """Age that a sample may have when it is read."""
    warm_up: float = 120.0
    """Seconds after ready during which a replica's latency teaches nothing."""
    most_up: int | None = None
    """Most replicas added at once; None: the whole gap."""
    most_down: int = 1
    """Most replicas taken away at once."""
    between_downs: float = 60.0
    """Seconds between two removals: a replica drains before the next is chosen."""

    def __post_init__(self) -> None:
        """Refuse what no decision could honour. Raises ValueError."""
        if not 0 <= self.minimum <= self.maximum or self.maximum < 1:
            raise ValueError(
                f"replicas must satisfy 0 <= minimum ({self.minimum}) <= maximum ({self.maximum}), maximum >= 1"
            )
        if not 0 < self.attainment < 1:
            raise ValueError(f"attainment must lie between 0 and 1, not {self.attainment}")
