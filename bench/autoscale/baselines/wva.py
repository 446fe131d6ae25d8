"""llm-d's Workload Variant Autoscaler (deprecated, last v0.9.0): saturation of replicas, in its first and second version.

Source: llm-d-autoscaling (formerly llm-d-workload-variant-autoscaler), docs and internal saturation analysers. It looks every 15 s
(GLOBAL_OPT_INTERVAL) and publishes replicas that an HPA follows with AverageValue 1, so that the HPA's tolerance and windows come on
top, as they do where it is installed. It sees single pods; here each ready replica has the fleet's mean.
"""

import math
from collections import deque

from bench.autoscale.baselines.hpa import LOOP, Behaviour, for_average
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages, Ready, Window, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

_MINUTE = 60.0


class WvaSaturation:
    """V1: a replica is saturated at KV use 0.80 or a queue of 5; metrics are the most of the last minute.

    One more if the mean spare KV is under 0.10 or the mean spare queue under 3; one less (from two on) if after the load
    is spread over one replica less the spares still clear both. It waits for replicas that start.
    """

    KNOBS = (
        Knob("kv", 0.80, 0.15, 0.95),
        Knob("queue", 5, 0.5, 20, log=True),
        Knob("spare_kv", 0.10, 0.01, 0.14),
        Knob("spare_queue", 3, 0.1, 19, log=True),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self,
        least: int = 1,
        most: int = 24,
        *,
        kv: float = 0.80,
        queue: float = 5.0,
        spare_kv: float = 0.10,
        spare_queue: float = 3.0,
        down_window: float = 300.0,
    ) -> None:
        self.name = "wva-v1"
        self._kv, self._queue, self._bounds = kv, queue, (least, most)
        self._spare_kv, self._spare_queue = spare_kv, spare_queue
        self._usages, self._queues = Window(_MINUTE), Window(_MINUTE)
        self._ready, self._loop = Ready(), Every(LOOP)
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        self._ready.add(seen.now, seen.ready)
        if seen.page is not None:
            page = parse(seen.page[1])
            if page.kv_usage is not None and page.waiting is not None:
                self._usages.add(seen.now, page.kv_usage)
                self._queues.add(seen.now, page.waiting / self._ready.at(seen.page[0]))
        if not self._loop.due(seen.now) or seen.page is None or not seen.ready:
            return None
        self._usages.forget(seen.now)
        self._queues.forget(seen.now)
        if not len(self._usages):
            return None
        n = max(1, seen.wanted)
        asked = n
        if not seen.starting:
            asked = n + self.step(max(self._usages), max(self._queues), seen.ready)
        asked = for_average(bounded(asked, *self._bounds), 1.0, n)
        return self._behaviour.follow(seen.now, seen.wanted, asked)

    def step(self, usage: float, queue: float, replicas: int) -> int:
        """1, 0 or -1 for replicas that all have this KV use and queue."""
        if usage >= self._kv or queue >= self._queue or not self._spared(usage, queue):
            return 1
        if replicas < 2:
            return 0
        spread = replicas / (replicas - 1)
        return -1 if self._spared(usage * spread, queue * spread) else 0

    def _spared(self, usage: float, queue: float) -> bool:
        close = 1e-9
        return self._kv - usage >= self._spare_kv - close and self._queue - queue >= self._spare_queue - close


class WvaTokens:
    """V2 (default since v0.9): tokens in use and queued against the tokens that a replica takes, min(k1, k2).

    k1 = KV tokens x 0.80; k2 = tokens in use while the queue is 5 or longer, else the mean of the last ten of those of the
    same output length (bounds 100 and 500 tokens), else k1 (what it derives from engine arguments is on no page). Demand =
    tokens in use + queue x (in + out). Up by demand / 0.85 over the supply, starting replicas included; down by what the supply
    has over demand / 0.70.
    """

    KNOBS = (
        Knob("kv", 0.80, 0.05, 0.95, log=True),
        Knob("queue", 5, 0.5, 20, log=True),
        Knob("up", 0.85, 0.71, 0.98),
        Knob("down", 0.70, 0.10, 0.70),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self,
        least: int = 1,
        most: int = 24,
        *,
        kv: float = 0.80,
        queue: float = 5.0,
        up: float = 0.85,
        down: float = 0.70,
        down_window: float = 300.0,
    ) -> None:
        self.name = "wva-v2"
        self._kv, self._queue, self._up, self._down = kv, queue, up, down
        self._bounds = least, most
        self._pages, self._ready, self._loop = Pages(300.0), Ready(), Every(LOOP)
        self._seen: dict[int, deque[float]] = {}
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        self._ready.add(seen.now, seen.ready)
        if not self._loop.due(seen.now) or seen.page is None or not seen.ready:
            return None
        at, text = seen.page
        page = parse(text)
        self._pages.add(at, page)
        if page.kv_usage is None or page.kv_tokens is None or page.waiting is None:
            return None
        prompt, output = self._lengths()
        then = self._ready.at(at)
        used = page.kv_usage * page.kv_tokens
        capacity = self.capacity(page.kv_tokens / then, used / then, page.waiting / then, output)
        demand = used + page.waiting * (prompt + output)
        n = max(1, seen.wanted)
        asked = n + self.step(demand, capacity, seen.ready, len(seen.starting))
        asked = for_average(bounded(asked, *self._bounds), 1.0, n)
        return self._behaviour.follow(seen.now, seen.wanted, asked)

    def capacity(self, kv_tokens: float, used: float, queue: float, output: float) -> float:
        """Tokens that one replica takes, from its KV tokens, those in use, its queue and the mean output length."""
        most = kv_tokens * self._kv
        bucket = (output >= 100) + (output >= 500)
        if queue >= self._queue and used > 0:
            self._seen.setdefault(bucket, deque(maxlen=10)).append(used)
            return min(most, used)
        past = self._seen.get(bucket)
        return min(most, sum(past) / len(past)) if past else most

    def step(self, demand: float, capacity: float, ready: int, starting: int) -> int:
        """Replicas to add (positive) or take away for a demand in tokens."""
        missing = max(0.0, demand / self._up - capacity * (ready + starting))
        if missing:
            return math.ceil(missing / capacity - 1e-9)
        spare = max(0.0, capacity * ready - demand / self._down)
        return -math.floor(spare / capacity + 1e-9)

    def _lengths(self) -> tuple[float, float]:
        """Mean prompt and output tokens of the last five minutes; 0 before anything has ended."""
        delta = self._pages.delta
        if delta is None or not delta.finished:
            return 0.0, 0.0
        return (delta.prompt_tokens or 0.0) / delta.finished, (delta.output_tokens or 0.0) / delta.finished
