"""A SageServe-style rule, written anew from the paper: an hourly forecast sets a floor, the KV cache's use moves the fleet.

Source: "SageServe" (arXiv 2502.14617; simulator shashwatj07/SageServe). Its integer program places models over regions and kinds of
accelerators; with one of each what is left of it is tokens over an instance's rate, rounded up. Its ARIMA is here
ARIMA(1,0,0)(0,1,0)24 on the hours' largest minutes, fitted by least squares; reactive rule as there: KV use over 0.5 one up, under 0.25
one down. It prints an instance's rate for its own models only: here it is a share of the prefill rate, and that half is this
re-implementation's own, as is that one step waits for the replicas that start.
"""

import math

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

HOUR, MINUTE, SEASON = 3600.0, 60.0, 24


def next_hour(hours: list[float]) -> float:
    """Forecast of the hour after the last: the same hour of the day before, plus what of the last difference lasts.

    The share that lasts is fitted by least squares on all differences so far, within 0 and 1. Without a whole day before,
    the last hour is all that is known. Never negative; 0 without any hour.
    """
    if len(hours) < SEASON:
        return hours[-1] if hours else 0.0
    gaps = [hours[place] - hours[place - SEASON] for place in range(SEASON, len(hours))]
    if not gaps:
        return hours[-SEASON]
    squares = sum(gap * gap for gap in gaps[:-1])
    product = sum(gaps[place] * gaps[place + 1] for place in range(len(gaps) - 1))
    lasting = min(1.0, max(0.0, product / squares)) if squares else 0.0
    return max(0.0, hours[-SEASON] + lasting * gaps[-1])


class SageServeStyle:
    """Floor = ceil(forecast prompt tokens per second / (share x prefill rate)), set each hour; the KV use does the rest."""

    KNOBS = (
        Knob("share", 0.5, 0.05, 1, log=True),
        Knob("up", 0.5, 0.05, 0.95, log=True),
        Knob("down", 0.25, 0.01, 0.25, log=True),
    )

    def __init__(
        self,
        prefill_rate: float,
        least: int = 1,
        most: int = 24,
        *,
        share: float = 0.5,
        up: float = 0.5,
        down: float = 0.25,
    ) -> None:
        self.name = f"sageserve-style-{share:g}"
        self._rate, self._up, self._down, self._bounds = prefill_rate * share, up, down, (least, most)
        self._pages, self._minute, self._hour = Pages(MINUTE), Every(MINUTE), Every(HOUR)
        self._hours: list[float] = []
        self._largest = 0.0
        self._floor = least
        self._begun = False

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size; an hour without any counts as the one before."""
        page = parse(seen.page[1]) if seen.page else None
        if seen.page is not None and page is not None:
            self._pages.add(seen.page[0], page)
            delta = self._pages.delta
            if delta is not None and delta.prompt_tokens is not None:
                self._largest = max(self._largest, delta.prompt_tokens / max(MINUTE, self._pages.span))
        if self._hour.due(seen.now):
            if self._begun:
                self._close_hour()
            self._begun = True
        if not self._minute.due(seen.now) or page is None or page.kv_usage is None or not seen.ready:
            return None
        step = self.step(page.kv_usage) if not seen.starting else 0
        return bounded(max(self._floor, seen.wanted + step), *self._bounds)

    def step(self, usage: float) -> int:
        """1, 0 or -1 for the KV cache's use."""
        return (usage > self._up) - (usage < self._down)

    def _close_hour(self) -> None:
        seen = self._largest or (self._hours[-1] if self._hours else 0.0)
        self._hours.append(seen)
        self._largest = 0.0
        self._floor = bounded(math.ceil(next_hour(self._hours) / self._rate - 1e-9), *self._bounds)
