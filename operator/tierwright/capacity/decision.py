"""What the autoscaler decided, why, and from which figures: the words that status, metrics and events repeat."""

from dataclasses import dataclass
from enum import StrEnum

from tierwright.capacity.plan import Plan


class Reason(StrEnum):
    """Why a tier has the number of replicas that it has."""

    STEADY = "Steady"
    DEMAND_GREW = "DemandGrew"
    DEMAND_FELL = "DemandFell"
    FORECAST_HOLDS = "ForecastHolds"
    """Fewer would do now, but not for what is foretold or was needed within the hold."""
    WINDOW_NOT_FULL = "WindowNotFull"
    """Fewer would do, but a full window was not seen since the start."""
    NO_METRICS = "NoMetrics"
    """Too few pods tell; nothing changes."""
    PARTIAL_METRICS = "PartialMetrics"
    """Some pods do not tell; nothing shrinks."""
    STARTING = "Starting"
    """No pod is ready yet, so there is nothing to measure."""
    STARTS_FAIL = "StartsFail"
    """Replicas that take far too long to start are replaced by further ones."""
    POOL_FULL = "PoolFull"
    """More is called for than the pool has room for."""
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    STEP_LIMITED = "StepLimited"
    IDLE = "Idle"
    """No request for the whole hold, and the minimum is zero."""
    WOKEN = "Woken"
    """A request waits for a tier that has no replica."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The figures behind a decision."""

    ready: int
    starting: int
    failing: int
    """Starting replicas that are counted on no longer."""
    wanted: int
    """Replicas that the workload was asked for before."""
    plan: Plan | None = None
    """None: there was no data to plan from."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Replicas to ask for, or None for no decision: whatever is asked for now stays."""

    replicas: int | None
    reason: Reason
    inputs: Inputs
    unplaced: int = 0
    """Replicas that are called for and have no room."""

    def message(self) -> str:
        """One line for a person."""
        what = "no decision" if self.replicas is None else f"{self.replicas} replicas"
        plan = self.inputs.plan
        if plan is None:
            i = self.inputs
            return f"{what}: {i.ready} ready, {i.starting} starting, {i.wanted} asked for"
        line = (
            f"{what}: work for {plan.demand:.2f} replicas arrives, {plan.expected:.2f} foretold for {plan.horizon:.0f} s from now; "
            f"{plan.replicas} replicas would miss {plan.missing:.1%} then, where a day may miss {plan.allowed:.1%}"
        )
        return f"{line}; {self.unplaced} have no room" if self.unplaced else line
