"""Knative's KPA: concurrency averaged over a stable and a panic window.

Source: knative/serving pkg/autoscaler/scaling/autoscaler.go; defaults of config/core/configmaps/autoscaler.yaml: tick 2 s, stable window
60 s, panic window a tenth of it, panic at 200 %, target 70 % of 100 concurrent requests, at most x1000 up and /2 down, scale-down
delay 0. Its ticks are the benchmark's here, so that the panic window holds the newest reading alone. Requests that run, wait in an engine
or wait for a first replica are concurrency, as its queue proxies and activator count them.
"""

import math

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Window, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse


class Kpa:
    """ceil(mean / target) within [floor(ready / 2), ceil(1000 ready)]; never down while it panics.

    It panics while the panic window asks for twice the ready replicas, and for one stable window after that. It starts in
    panic over more than one replica, since it knows no history then.
    """

    KNOBS = (
        Knob("target", 70, 1, 200, log=True),
        Knob("stable_window", 60, 6, 3600, log=True),
        Knob("panic_threshold", 2, 1.1, 10, log=True),
        Knob("down_delay", 0, 0, 3600),
    )
    UP, DOWN = 1000.0, 2.0

    def __init__(
        self,
        target: float = 70.0,
        least: int = 1,
        most: int = 24,
        *,
        stable_window: float = 60.0,
        panic_threshold: float = 2.0,
        down_delay: float = 0.0,
    ) -> None:
        self.name = f"knative-kpa-{target:g}"
        self._target, self._bounds = target, (least, most)
        self._stable_window, self._threshold = stable_window, panic_threshold
        self._stable, self._panic = Window(stable_window), Window(stable_window / 10)
        self._delay = Window(down_delay)
        self._since: float | None = None
        self._most_in_panic = 0
        self._begun = False

    def tick(self, seen: Snapshot) -> int | None:
        """A window without readings keeps the size."""
        if not self._begun:
            self._begun = True
            if seen.ready > 1:
                self._since, self._most_in_panic = seen.now, seen.ready
        if seen.page is not None:
            page = parse(seen.page[1])
            if page.running is not None and page.waiting is not None:
                concurrency = page.running + page.waiting + seen.queued
                self._stable.add(seen.now, concurrency)
                self._panic.add(seen.now, concurrency)
        self._stable.forget(seen.now)
        self._panic.forget(seen.now)
        if not len(self._stable) or not len(self._panic):
            return None
        wanted = self.wanted(seen.now, self._stable.mean, self._panic.mean, seen.ready)
        self._delay.add(seen.now, wanted)
        return bounded(max(self._delay), *self._bounds)

    def wanted(self, now: float, stable: float, panic: float, ready: int) -> int:
        """Replicas for the mean concurrency of both windows, before delay and bounds."""
        present = max(1, ready)
        highest, lowest = math.ceil(self.UP * present), math.floor(present / self.DOWN)
        for_stable = math.ceil(stable / self._target - 1e-9)
        for_panic = math.ceil(panic / self._target - 1e-9)
        if for_panic / present >= self._threshold:
            self._since = now
        elif self._since is not None and self._since + self._stable_window < now:
            self._since, self._most_in_panic = None, 0
        wanted = min(max(for_stable, lowest), highest)
        if self._since is None:
            return wanted
        self._most_in_panic = max(self._most_in_panic, wanted, min(max(for_panic, lowest), highest))
        return self._most_in_panic
