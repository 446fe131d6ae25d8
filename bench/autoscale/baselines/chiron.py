"""A Chiron-style rule, written anew from the paper: replicas from the backpressure of queue and latency.

Source: "Hierarchical Autoscaling for Large Language Model Serving with Chiron" (arXiv 2501.08090). Its local loop, which moves each
engine's batch size, has no counterpart here: no policy of the benchmark may set it. Its batch class does not exist here either, so
what remains is the global loop for interactive requests: keep the share of replicas that serve near a target, so that the rest
can take a burst, and grow when the queue will wait longer than the objective. The paper prints no defaults that could be shipped;
the numbers below are this re-implementation's own.
"""

import math

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages, Ready, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse


class ChironStyle:
    """Backpressure = max(P90 time per token / limit, queue's wait / TTFT limit), at most 2.

    Replicas in use = ready x backpressure; wanted = ceil(in use / utilisation), at most twice the ready ones. Down by one at a
    time when wanted stays below for `hold` seconds.
    """

    KNOBS = (
        Knob("utilisation", 0.67, 0.2, 0.95),
        Knob("interval", 30, 10, 120, log=True),
        Knob("hold", 300, 0, 1800),
    )

    def __init__(
        self,
        ttft: float,
        tpot: float,
        least: int = 1,
        most: int = 24,
        *,
        utilisation: float = 0.67,
        interval: float = 30.0,
        hold: float = 300.0,
    ) -> None:
        self.name = f"chiron-style-{utilisation:g}"
        self._ttft, self._tpot, self._bounds = ttft, tpot, (least, most)
        self._utilisation, self._hold = utilisation, hold
        self._pages, self._ready, self._loop = Pages(60.0), Ready(), Every(interval)
        self._below: float | None = None

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size, and the time below begins anew."""
        self._ready.add(seen.now, seen.ready)
        if not self._loop.due(seen.now):
            return None
        if seen.page is None:
            self._below = None
            return None
        page = parse(seen.page[1])
        self._pages.add(seen.page[0], page)
        delta = self._pages.delta
        if delta is None or page.waiting is None or not seen.ready:
            return None
        slow = (delta.per_output_token.quantile(0.9) or 0.0) if delta.per_output_token else 0.0
        rate = (delta.finished or 0.0) / self._pages.span
        wait = (page.waiting / rate) if rate else (math.inf if page.waiting else 0.0)
        return self._act(seen, self.backpressure(slow, wait), self._ready.at(seen.page[0]))

    def backpressure(self, per_token: float, wait: float) -> float:
        """The worse of both latencies over its objective, at most 2; times in seconds."""
        return min(2.0, max(per_token / self._tpot, wait / self._ttft))

    def wanted(self, pressure: float, ready: int) -> int:
        """Replicas at which those that serve are the utilisation's share of all."""
        return min(2 * ready, math.ceil(ready * pressure / self._utilisation - 1e-9))

    def _act(self, seen: Snapshot, pressure: float, ready: int) -> int | None:
        wanted = bounded(self.wanted(pressure, ready), *self._bounds)
        if wanted >= seen.wanted:
            self._below = None
            return wanted
        if self._below is None:
            self._below = seen.now
        if seen.starting or seen.now - self._below < self._hold - 1e-9:
            return None
        self._below = seen.now
        return bounded(seen.wanted - 1, *self._bounds)
