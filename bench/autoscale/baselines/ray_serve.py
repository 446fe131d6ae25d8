"""Ray Serve's default policy: ongoing requests per replica, applied after decisions that agree for long enough.

Source: ray-project/ray python/ray/serve/autoscaling_policy.py; defaults of python/ray/serve/config.py: target 2 ongoing requests, look-back
30 s, up after 30 s, down after 600 s, factors 1. Its loop of 0.1 s is the benchmark's tick here, so the delays count in seconds: a
decision acts once it has been the same way for longer than its delay.
"""

import math

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Window, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse


class RayServe:
    """current x (total / (target x current)), rounded up; the direction must hold for its delay."""

    KNOBS = (
        Knob("target", 2, 0.5, 64, log=True),
        Knob("look_back", 30, 10, 600, log=True),
        Knob("up_delay", 30, 0, 300),
        Knob("down_delay", 600, 0, 3600),
    )

    def __init__(
        self,
        target: float = 2.0,
        least: int = 1,
        most: int = 24,
        *,
        look_back: float = 30.0,
        up_delay: float = 30.0,
        down_delay: float = 600.0,
    ) -> None:
        self.name = f"ray-serve-{target:g}"
        self._target, self._bounds = target, (least, most)
        self._up_delay, self._down_delay = up_delay, down_delay
        self._ongoing = Window(look_back)
        self._direction, self._since = 0, 0.0

    def tick(self, seen: Snapshot) -> int | None:
        """Readings that stop leave the window; without any left the size is kept and the delays begin anew."""
        if seen.page is not None:
            page = parse(seen.page[1])
            if page.running is not None and page.waiting is not None:
                self._ongoing.add(seen.now, page.running + page.waiting + seen.queued)
        self._ongoing.forget(seen.now)
        if not len(self._ongoing):
            self._direction = 0
            return None
        asked = bounded(math.ceil(self._ongoing.mean / self._target - 1e-9), *self._bounds)
        direction = (asked > seen.wanted) - (asked < seen.wanted)
        if direction != self._direction:
            self._direction, self._since = direction, seen.now
        if not direction:
            return None
        if seen.now - self._since < (self._up_delay if direction > 0 else self._down_delay) - 1e-9:
            return None
        self._direction = 0
        return asked
