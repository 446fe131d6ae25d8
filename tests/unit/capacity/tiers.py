"""Tiers, ticks and days for the tests of the autoscaler: values only, no clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tierwright.capacity.decision import Decision
from tierwright.capacity.miss_curve import Curve
from tierwright.capacity.policy import step
from tierwright.capacity.samples import Judged, Observation, PodSample
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import TierState
from tierwright.capacity.work import PRIOR_STEP_TIME

SETTINGS = TierSettings(
    minimum=1, maximum=20, attainment=0.95, accelerator="nvidia", cold_start=120.0, hold=600.0
)
START = 1_700_000_000.0
# Engine time of a request of 1000 prompt and 100 output tokens, by the prior of an A100.
WORK = 100 * (38.1e-6 + 79.4e-9 * 1050) + 60.4e-6 * 1000


def missed(load: float, middle: float = 0.6) -> float:
    """How an engine misses by its load, however many there are: 5 % at 0.4, half at 0.58."""
    return Curve(floor=0.0, middle=middle, steepness=8.0).misses(load, replicas=16)


def pod(arrivals: float = 10.0, **changes: object) -> PodSample:
    """Ten seconds of a warm pod to which so many requests came: its steps and misses are those of the load."""
    load = arrivals * WORK / 10
    step = PRIOR_STEP_TIME["nvidia"].fixed / (1 - min(0.95, load))
    steps = 10 / step
    sample = PodSample(
        seconds=10.0,
        age=10_000.0,
        arrivals=arrivals,
        running=100 * arrivals / steps,
        waiting=0.0,
        prefilled=arrivals,
        prompt_tokens=1000 * arrivals,
        cached_tokens=0.0,
        output_tokens=100 * arrivals,
        steps=steps,
        token_seconds=step,
        context_tokens=1050 * 100 * arrivals / steps,
        first_token=Judged(arrivals, arrivals * missed(load)),
        per_token=Judged(arrivals, 0.0),
    )
    return replace(sample, **changes)  # type: ignore[arg-type]


def fleet(rate: float, ready: int, **changes: object) -> tuple[PodSample, ...]:
    """Ten seconds of a fleet to which `rate` requests a second came."""
    return tuple(pod(10 * rate / ready, **changes) for _ in range(ready))


@dataclass
class Tier:
    """A tier that is stepped through time; replicas become ready `cold_start` seconds after they were asked for."""

    settings: TierSettings = SETTINGS
    state: TierState = field(default_factory=TierState)
    now: float = START
    ready: int = 2
    cold_start: float = 120.0
    starting: list[float] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def wanted(self) -> int:
        return self.ready + len(self.starting)

    def tick(
        self, rate: float = 1.0, *, change: Callable[[Observation], Observation] = lambda o: o
    ) -> Decision:
        """Ten seconds at a rate of requests; what was decided is done."""
        self.now += 10
        grown = [at for at in self.starting if self.now - at >= self.cold_start]
        self.starting = [at for at in self.starting if at not in grown]
        self.ready += len(grown)
        seen = Observation(
            pods=fleet(rate, self.ready) if self.ready else (),
            ready=self.ready,
            wanted=self.wanted,
            starting=tuple(self.now - at for at in self.starting),
            started=tuple(self.now - at for at in grown),
        )
        outcome = step(self.settings, self.state, change(seen), self.now)
        self.state = outcome.state
        self.decisions.append(outcome.decision)
        self._act(outcome.decision.replicas)
        return outcome.decision

    def run(self, rates: Iterable[float]) -> list[Decision]:
        """One tick for each rate."""
        return [self.tick(rate) for rate in rates]

    def _act(self, replicas: int | None) -> None:
        if replicas is None:
            return
        while self.wanted < replicas:
            self.starting.append(self.now)
        while self.wanted > replicas:
            if self.starting:
                self.starting.pop()
            else:
                self.ready -= 1


def minutes(count: float, rate: float) -> list[float]:
    """So many minutes of ticks at one rate."""
    return [rate] * round(count * 6)
