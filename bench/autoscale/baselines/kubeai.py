"""KubeAI: the mean of active requests over ten minutes.

Source: kubeai-project/kubeai internal/modelautoscaler and modelclient, and the chart's values: every 10 s; mean over a time window of
10 min of the requests that its proxy holds or has sent; ceil(mean / target) with target 100; a scale-down waits for as many decisions
in a row as the delay (30 s) has intervals, and the next one acts. The mean's slots begin as zeros.
"""

import math
from collections import deque

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

INTERVAL = 10.0


class KubeAi:
    """ceil(mean of active requests / target); a single decision is enough to grow."""

    KNOBS = (
        Knob("target", 100, 1, 200, log=True),
        Knob("window", 600, 10, 1800, log=True),
        Knob("down_delay", 30, 0, 3600),
    )

    def __init__(
        self,
        target: float = 100.0,
        least: int = 1,
        most: int = 24,
        *,
        window: float = 600.0,
        down_delay: float = 30.0,
    ) -> None:
        self.name = f"kubeai-{target:g}"
        self._target, self._bounds = target, (least, most)
        slots = max(1, round(window / INTERVAL))
        self._active, self._loop = deque([0.0] * slots, maxlen=slots), Every(INTERVAL)
        self._needed = math.ceil(down_delay / INTERVAL - 1e-9)
        self._in_a_row = 0

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size and the count of decisions."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        page = parse(seen.page[1])
        if page.running is None or page.waiting is None:
            return None
        self._active.append(page.running + page.waiting + seen.queued)
        mean = sum(self._active) / len(self._active)
        asked = bounded(math.ceil(mean / self._target - 1e-9), *self._bounds)
        if asked >= seen.wanted:
            self._in_a_row = 0
            return asked
        if self._in_a_row < self._needed:
            self._in_a_row += 1
            return None
        return asked  # the count stays until a decision is no scale-down
