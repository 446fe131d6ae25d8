"""llm-d's rules on the queue in its gateway: queue (its default), queue-guard and token-aware.

Source: llm-d/llm-d guides/workload-autoscaling. Its gateway's flow control holds the queue; here the engines' waiting requests stand
for it, and those that wait for the first ready replica. The guides' bounds (1 to 8 or 10 replicas) give way to the scenario's.
"""

from bench.autoscale.baselines.hpa import LOOP, Behaviour, Steps, for_average
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import MetricsPage, parse


def _queue_and_running(seen: Snapshot) -> tuple[float, float] | None:
    if seen.page is None:
        return None
    page = parse(seen.page[1])
    if page.waiting is None or page.running is None:
        return None
    return page.waiting + seen.queued, page.running


class LlmdQueue:
    """keda-epp queue: the larger of queue/1 and running/16, AverageValue; windows of 300 s both ways, 100 % in 15 s."""

    KNOBS = (
        Knob("queue", 1, 0.1, 16, log=True),
        Knob("running", 16, 1, 64, log=True),
        Knob("up_window", 300, 0, 600),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self,
        queue: float = 1.0,
        least: int = 1,
        most: int = 24,
        *,
        running: float = 16.0,
        up_window: float = 300.0,
        down_window: float = 300.0,
    ) -> None:
        self.name = f"llm-d-queue-{queue:g}"
        self._queue, self._running, self._loop = queue, running, Every(LOOP)
        step = Steps(15.0, share=1.0)
        self._behaviour = Behaviour(
            least, most, up_window=up_window, down_window=down_window, up=step, down=step
        )

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now):
            return None
        signals = _queue_and_running(seen)
        if signals is None:
            return None
        n = max(1, seen.wanted)
        asked = max(for_average(signals[0], self._queue, n), for_average(signals[1], self._running, n))
        return self._behaviour.follow(seen.now, seen.wanted, asked)


class LlmdQueueGuard:
    """keda-epp queue-guard: demand as above, from which replicas that start are taken off before it may grow the fleet.

    Up window 0 s, down window 300 s, 100 % in 15 s both ways; with more than 3 failed readings (KEDA's fallback) one replica is asked for.
    """

    KNOBS = (
        Knob("queue", 1, 0.1, 16, log=True),
        Knob("running", 16, 1, 64, log=True),
        Knob("down_window", 300, 0, 1800),
    )
    FAILURES = 3

    def __init__(
        self,
        queue: float = 1.0,
        least: int = 1,
        most: int = 24,
        *,
        running: float = 16.0,
        down_window: float = 300.0,
    ) -> None:
        self.name = f"llm-d-queue-guard-{queue:g}"
        self._queue, self._running, self._loop = queue, running, Every(LOOP)
        step = Steps(15.0, share=1.0)
        self._behaviour = Behaviour(least, most, down_window=down_window, up=step, down=step)
        self._failed = 0

    def tick(self, seen: Snapshot) -> int | None:
        """The first failed readings keep the size."""
        if not self._loop.due(seen.now):
            return None
        signals = _queue_and_running(seen)
        if signals is None:
            self._failed += 1
            # The fallback is metric enough for an HPA: it goes through the window like any other.
            return self._behaviour.follow(seen.now, seen.wanted, 1) if self._failed > self.FAILURES else None
        self._failed = 0
        demand = max(signals[0] / self._queue, signals[1] / self._running)
        if demand > seen.wanted:
            demand = max(demand - len(seen.starting), seen.wanted)
        asked = for_average(demand, 1.0, max(1, seen.wanted))
        return self._behaviour.follow(seen.now, seen.wanted, asked)


class LlmdTokenAware:
    """token-aware (experimental): the larger of ceil(backlog / 1.5 s) and ceil(sum of KV use / 0.8), both AverageValue.

    backlog = prompt tokens in flight that no cache holds / V_P, the tokens that a replica prefills in a second (the guide's
    15,928 is a 32B model's on two H100; the scenario's own is given here). The gateway knows each prompt's length; here the mean
    prompt so far stands for it, and the waiting requests for those not prefilled. One pod up in 180 s without a window, one
    down in 300 s with a window of 300 s.
    """

    KNOBS = (
        Knob("backlog", 1.5, 0.05, 10, log=True),
        Knob("kv", 0.8, 0.05, 0.95, log=True),
        Knob("up_period", 180, 15, 300),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self,
        prefill_rate: float,
        backlog: float = 1.5,
        least: int = 1,
        most: int = 24,
        *,
        kv: float = 0.8,
        up_period: float = 180.0,
        down_window: float = 300.0,
    ) -> None:
        self.name = f"llm-d-token-aware-{backlog:g}"
        self._rate, self._backlog, self._kv, self._loop = prefill_rate, backlog, kv, Every(LOOP)
        self._behaviour = Behaviour(
            least, most, down_window=down_window, up=Steps(up_period, pods=1), down=Steps(300.0, pods=1)
        )

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        page = parse(seen.page[1])
        if page.waiting is None or page.kv_usage is None:
            return None
        seconds = (page.waiting + seen.queued) * mean_prompt(page) / self._rate
        n = max(1, seen.wanted)
        asked = max(
            for_average(seconds, self._backlog, n),
            for_average(page.kv_usage * seen.ready, self._kv, n),
        )
        return self._behaviour.follow(seen.now, seen.wanted, asked)


def mean_prompt(page: MetricsPage) -> float:
    """Prompt tokens of a request that no cache held, over all requests that have their first token; 0 before the first."""
    done = page.first_token.count if page.first_token else 0.0
    if not done or page.prompt_tokens is None:
        return 0.0
    return max(0.0, page.prompt_tokens - (page.cached_tokens or 0.0)) / done
