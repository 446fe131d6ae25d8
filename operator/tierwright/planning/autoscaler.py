"""Runs the autoscaler's own decision in the model of a fleet: the same step as in the cluster, fed with what the model counted."""

from collections.abc import Iterable
from dataclasses import dataclass

from tierwright.capacity.policy import step
from tierwright.capacity.samples import Judged, Observation, PodSample
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import TierState
from tierwright.planning.case import Case, Figures, Setting, Static, figures_of, run_of, settings_of
from tierwright.planning.counters import Counters
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Policy, Snapshot, replay

_WARM = 1e9
"""Age of the model's replicas: they are as fast when young as later."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scrape of the whole fleet would have told; sums over the replicas since the start, and gauges."""

    arrived: int
    running: int
    waiting: int
    context_tokens: float
    prompt_tokens: float
    output_tokens: float
    steps: float
    inter_tokens: float
    inter_token_seconds: float
    first_tokens: int
    first_missed: int
    per_tokens: int
    per_token_missed: int


def reading(counters: Counters, kv_blocks: int, block_size: int) -> Reading:
    """The counters at this moment."""
    c = counters
    return Reading(
        arrived=c.finished + c.running + c.waiting,
        running=c.running,
        waiting=c.waiting,
        context_tokens=c.kv_usage * kv_blocks * block_size,
        prompt_tokens=c.prompt_tokens,
        output_tokens=c.output_tokens,
        steps=c.steps,
        inter_tokens=c.inter_tokens,
        inter_token_seconds=c.inter_token_seconds,
        first_tokens=c.first_tokens,
        first_missed=c.first_missed,
        per_tokens=c.per_tokens,
        per_token_missed=c.per_token_missed,
    )


def part_of(before: Reading, after: Reading, seconds: float, ready: int) -> PodSample:
    """The sample of one of the ready replicas: its equal part of what the fleet did between two readings."""
    tokens = after.inter_tokens - before.inter_tokens
    return PodSample(
        seconds=seconds,
        age=_WARM,
        arrivals=max(0, after.arrived - before.arrived) / ready,
        running=after.running / ready,
        waiting=after.waiting / ready,
        prefilled=(after.first_tokens - before.first_tokens) / ready,
        prompt_tokens=(after.prompt_tokens - before.prompt_tokens) / ready,
        cached_tokens=0.0,
        output_tokens=(after.output_tokens - before.output_tokens) / ready,
        steps=(after.steps - before.steps) / ready,
        token_seconds=(after.inter_token_seconds - before.inter_token_seconds) / tokens if tokens else None,
        context_tokens=after.context_tokens / ready,
        first_token=Judged(
            (after.first_tokens - before.first_tokens) / ready,
            (after.first_missed - before.first_missed) / ready,
        ),
        per_token=Judged(
            (after.per_tokens - before.per_tokens) / ready,
            (after.per_token_missed - before.per_token_missed) / ready,
        ),
    )


class Autoscaler:
    """The policy of a tier in mode Auto."""

    def __init__(self, settings: TierSettings) -> None:
        self.name = "autoscaler"
        self._settings, self._state = settings, TierState()
        self._before: tuple[float, Reading] | None = None
        self._asked: dict[float, float] = {}
        self._ready = 0

    def tick(self, seen: Snapshot[Reading]) -> int | None:
        """Difference two readings, and decide."""
        pods: tuple[PodSample, ...] = ()
        if seen.page is not None:
            at, after = seen.page
            if self._before is not None and at > self._before[0] and seen.ready:
                pods = (part_of(self._before[1], after, at - self._before[0], seen.ready),) * seen.ready
            self._before = seen.page
        observation = Observation(
            pods, seen.ready, seen.wanted, seen.starting, self._started(seen), queued=float(seen.queued)
        )
        outcome = step(self._settings, self._state, observation, seen.now)
        self._state = outcome.state
        return outcome.decision.replicas

    def _started(self, seen: Snapshot[Reading]) -> tuple[float, ...]:
        """Seconds that each start took which ended since the last tick: the oldest of those that start no longer."""
        asked = {round(seen.now - age, 3) for age in seen.starting}
        gone = sorted((age for at, age in self._asked.items() if at not in asked), reverse=True)
        more = max(0, seen.ready - self._ready)
        self._asked, self._ready = {at: seen.now - at for at in asked}, seen.ready
        return tuple(gone[:more])


class Fixed:
    """A fleet that stays as it is."""

    def __init__(self, replicas: int) -> None:
        self.name = f"static {replicas}"
        self._replicas = replicas

    def tick(self, seen: Snapshot[Reading]) -> int | None:  # noqa: ARG002 - the fleet is fixed
        """The same each time."""
        return self._replicas


def simulate(case: Case, setting: Setting, requests: Iterable[Request]) -> Figures:
    """Replay the tier's requests, in order of arrival, with one setting. The same requests give the same figures."""
    policy: Policy[Reading] = (
        Fixed(setting.replicas) if isinstance(setting, Static) else Autoscaler(settings_of(case, setting))
    )
    outcome = replay(requests, policy, run_of(case, setting), reading, _even, target=case.promise)
    return figures_of(setting, outcome)


def _even() -> float:
    """Starts take as long as the tier says, and none fails."""
    return 0.5
