"""The Kubernetes HPA (v2) and its usual targets on an engine: running and waiting requests, and the KV cache's use.

Source: kubernetes/kubernetes pkg/controller/podautoscaler/replica_calculator.go and horizontal.go. Its loop runs every 15 s; a ratio
of metric over target within 0.1 of one changes nothing; up window 0 s with the larger of +100 % and +4 pods in 15 s; down window
300 s with 100 % in 15 s.
"""

import math
from collections import deque
from dataclasses import dataclass

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Window, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

LOOP = 15.0
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Steps:
    """How far the fleet may move within `period` seconds: the larger of a share of it and a number of pods."""

    period: float
    share: float = 0.0
    """Of the replicas at the period's start; 1 is 100 %."""
    pods: int = 0


UP = Steps(15.0, share=1.0, pods=4)
DOWN = Steps(15.0, share=1.0)


def for_average(total: float, target: float, replicas: int, tolerance: float = TOLERANCE) -> int:
    """Replicas at which `total` spread over them is the target (AverageValue); as they are within the tolerance."""
    if abs(total / (target * replicas) - 1) <= tolerance:
        return replicas
    return math.ceil(total / target - 1e-9)


def for_mean(mean: float, target: float, ready: int, replicas: int, tolerance: float = TOLERANCE) -> int:
    """Replicas for a mean over the ready ones (Pods metric); those that start count as idle when it grows.

    When they turn growth into shrinking, or into less than the tolerance, nothing changes.
    """
    ratio = mean / target
    if abs(ratio - 1) <= tolerance:
        return replicas
    if ratio < 1 or ready >= replicas:
        return math.ceil(ready * ratio - 1e-9)
    with_idle = ratio * ready / replicas
    if with_idle < 1 or abs(with_idle - 1) <= tolerance:
        return replicas
    return math.ceil(with_idle * replicas - 1e-9)


class Behaviour:
    """Windows, steps and bounds between what a metric asks for and what is set (the `behavior` field)."""

    def __init__(
        self,
        least: int,
        most: int,
        *,
        up_window: float = 0.0,
        down_window: float = 300.0,
        up: Steps = UP,
        down: Steps = DOWN,
    ) -> None:
        self._least, self._most = least, most
        self._up_window, self._up, self._down = up_window, up, down
        self._down_window = down_window
        self._asked = Window(max(up_window, down_window))
        self._moves: deque[tuple[float, int]] = deque()

    def follow(self, now: float, replicas: int, asked: int) -> int:
        """Replicas to set: the least asked in the up window when growing, the most in the down window when shrinking."""
        if not len(self._asked):
            self._asked.add(now, replicas)  # as the HPA does when it first sees a fleet
        self._asked.add(now, asked)
        floor = min(self._asked.since(now - self._up_window)) if self._up_window else asked
        ceiling = max(self._asked.since(now - self._down_window)) if self._down_window else asked
        wanted = int(min(max(replicas, floor), ceiling))
        if wanted > replicas:
            start = replicas - self._moved(now, self._up.period)
            wanted = min(wanted, max(start + self._up.pods, math.ceil(start * (1 + self._up.share))))
            wanted = max(wanted, replicas)
        elif wanted < replicas:
            start = replicas - self._moved(now, self._down.period)
            lowest = min(start - self._down.pods, math.floor(start * (1 - self._down.share)))
            wanted = min(max(wanted, lowest), replicas)
        wanted = bounded(wanted, self._least, self._most)
        if wanted != replicas:
            self._moves.append((now, wanted - replicas))
        return wanted

    def _moved(self, now: float, period: float) -> int:
        """By how much the fleet has grown within the last `period` seconds; what was taken away counts against it."""
        while self._moves and self._moves[0][0] <= now - max(self._up.period, self._down.period):
            self._moves.popleft()
        return sum(by for at, by in self._moves if at > now - period)


class HpaRunning:
    """HPA on the sum of running and waiting requests, AverageValue.

    No engine ships a target: 16 is the one of llm-d's guides (guides/workload-autoscaling), 32 the other usual one.
    """

    KNOBS = (
        Knob("target", 16, 1, 64, log=True),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self, target: float = 16.0, least: int = 1, most: int = 24, *, down_window: float = 300.0
    ) -> None:
        self.name = f"hpa-running-{target:g}"
        self._target, self._loop = target, Every(LOOP)
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        page = parse(seen.page[1])
        if page.running is None or page.waiting is None:
            return None
        n = max(1, seen.wanted)
        return self._behaviour.follow(
            seen.now, seen.wanted, for_average(page.running + page.waiting, self._target, n)
        )


class HpaKv:
    """HPA on the KV cache's use, a mean over the ready pods; nobody ships a target, 0.7 is a common one."""

    KNOBS = (
        Knob("target", 0.7, 0.02, 0.95, log=True),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self, target: float = 0.7, least: int = 1, most: int = 24, *, down_window: float = 300.0
    ) -> None:
        self.name = f"hpa-kv-{target:g}"
        self._target, self._loop = target, Every(LOOP)
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        usage = parse(seen.page[1]).kv_usage
        if usage is None or not seen.ready:
            return None
        asked = for_mean(usage, self._target, seen.ready, seen.wanted)
        return self._behaviour.follow(seen.now, seen.wanted, asked)
