"""Our own policy in the benchmark: the shipped code, fed through the shipped parser."""

from collections import deque
from dataclasses import replace

from bench.autoscale.policy import Snapshot
from tierwright.capacity.policy import step
from tierwright.capacity.samples import Judged, Observation, PodSample
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import TierState
from tierwright.control.pod_samples import LatencyObjectives, sample_of
from tierwright.observe.metrics import MetricsPage, parse


class Tierwright:
    """The operator's own policy. The page is fleet-wide: per-replica logic (young replicas) is not shown by this benchmark."""

    def __init__(
        self, settings: TierSettings, objectives: LatencyObjectives, name: str = "tierwright"
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = TierState()
        self.log: deque[tuple[float, object]] = deque(maxlen=100_000)
        self._objectives = objectives
        self._before: tuple[float, MetricsPage] | None = None
        self._started: dict[float, float] = {}
        self._ready = 0
        self._told = [0.0, 0.0, 0.0, 0.0]

    def tick(self, seen: Snapshot) -> int | None:
        """Parse, difference, decide."""
        pods: tuple[PodSample, ...] = ()
        if seen.page is not None:
            at, text = seen.page
            page = parse(text)
            if self._before is not None and at > self._before[0]:
                sample = sample_of(
                    self._before[1], page, seconds=at - self._before[0], age=1e9, objectives=self._objectives
                )
                pods = (sample,)
                self._count(sample)
            self._before = (at, page)
        asked = {round(seen.now - age, 3) for age in seen.starting}
        gone = [age for at, age in self._started.items() if at not in asked]
        started = tuple(sorted(gone, reverse=True)[: max(0, seen.ready - self._ready)])
        self._started, self._ready = {at: seen.now - at for at in asked}, seen.ready
        fleet = tuple(_part(sample, seen.ready) for sample in pods for _ in range(seen.ready))
        observation = Observation(fleet, seen.ready, seen.wanted, seen.starting, started)
        outcome = step(self.settings, self.state, observation, seen.now)
        self.state = outcome.state
        self.log.append((seen.now, outcome.decision))
        return outcome.decision.replicas

    @property
    def told(self) -> list[float]:
        """First tokens and those that came late, outputs of several tokens and those that were slow: so far."""
        return list(self._told)

    @property
    def told_misses(self) -> float:
        """Share of requests that the tier would report as missed, over the whole run."""
        first, first_missed, per_token, per_token_missed = self._told
        return min(1.0, first_missed / max(1.0, first) + per_token_missed / max(1.0, per_token))

    def _count(self, sample: PodSample) -> None:
        for place, judged in ((0, sample.first_token), (2, sample.per_token)):
            if judged is not None:
                self._told[place] += judged.requests
                self._told[place + 1] += judged.misses


def _part(sample: PodSample, ready: int) -> PodSample:
    """One ready replica's equal part of the fleet's sample."""

    def part(value: float | None) -> float | None:
        return None if value is None else value / ready

    def judged(value: Judged | None) -> Judged | None:
        return None if value is None else Judged(value.requests / ready, value.misses / ready)

    return replace(
        sample,
        arrivals=part(sample.arrivals),
        running=part(sample.running),
        waiting=part(sample.waiting),
        prefilled=part(sample.prefilled),
        prompt_tokens=part(sample.prompt_tokens),
        cached_tokens=part(sample.cached_tokens),
        output_tokens=part(sample.output_tokens),
        steps=part(sample.steps),
        context_tokens=part(sample.context_tokens),
        first_token=judged(sample.first_token),
        per_token=judged(sample.per_token),
    )
