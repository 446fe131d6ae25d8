"""llm-d's SLO-aware rule: the worse of two latencies over their limits, held within a band.

Source: llm-d/llm-d guides/workload-autoscaling/slo-aware, with the scenario's objectives in place of its 3 s and 100 ms and the
scenario's bounds in place of its 3 to 8 replicas.
"""

import math

from bench.autoscale.baselines.hpa import LOOP, Behaviour, Steps, for_average
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages, Window
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse


class SloAware:
    """s_raw = max(P90 TTFT / limit, P90 TPOT / limit) over one minute, at most 2; s = its mean over 45 s.

    Above 0.55: n + ceil(n (s c / 0.55 - 1)) with c = ready / n; below 0.40: n - floor(n (1 - s / 0.40)), without c. Up: window
    30 s and the larger of 100 % and 4 in 60 s; down: window 180 s and one in 120 s. `scale` takes each latency for that
    much worse (1 as shipped): the one knob that moves the rule between cautious and thrifty.
    """

    KNOBS = (
        Knob("scale", 1, 0.25, 4, log=True),
        Knob("high", 0.55, 0.45, 0.95),
        Knob("low", 0.40, 0.05, 0.44),
        Knob("down_window", 180, 0, 1800),
    )

    def __init__(
        self,
        ttft: float,
        tpot: float,
        least: int = 1,
        most: int = 24,
        scale: float = 1.0,
        *,
        high: float = 0.55,
        low: float = 0.40,
        down_window: float = 180.0,
    ) -> None:
        self.name = "llm-d-slo-aware" if scale == 1.0 else f"llm-d-slo-aware-x{scale:g}"
        self._limits, self._scale = (ttft, tpot), scale
        self._high, self._low = high, low
        self._pages, self._strain, self._loop = Pages(60.0), Window(45.0), Every(LOOP)
        self._behaviour = Behaviour(
            least,
            most,
            up_window=30.0,
            down_window=down_window,
            up=Steps(60.0, share=1.0, pods=4),
            down=Steps(120.0, pods=1),
        )

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size; a minute without traffic is no strain."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        self._pages.add(seen.page[0], parse(seen.page[1]))
        delta = self._pages.delta
        raw = 0.0
        if delta is not None:
            for histogram, limit in zip(
                (delta.first_token, delta.per_output_token), self._limits, strict=True
            ):
                raw = max(raw, ((histogram.quantile(0.9) or 0.0) if histogram else 0.0) / limit)
        self._strain.add(seen.now, min(2.0, raw * self._scale))
        n = max(1, seen.wanted)
        asked = self.asked(self._strain.mean, n, seen.ready)
        # What the formula asks for is an HPA's metric with AverageValue 1: its tolerance of a tenth comes on top.
        return self._behaviour.follow(seen.now, seen.wanted, for_average(asked, 1.0, n))

    def asked(self, strain: float, provisioned: int, ready: int) -> int:
        """Replicas for a strain, before windows, steps and bounds."""
        credit = ready / provisioned if 0 < ready < provisioned else 1.0
        if strain > self._high:
            return provisioned + math.ceil(provisioned * (strain * credit / self._high - 1) - 1e-9)
        if strain < self._low:
            return provisioned - math.floor(provisioned * (1 - strain / self._low) + 1e-9)
        return provisioned
