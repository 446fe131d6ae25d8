"""Published scaling rules as shipped, read from their sources; each sees the page that ours sees."""

import math
from collections import deque

from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import MetricsPage, parse
from tierwright.observe.page_delta import between


class Static:
    """A fixed fleet: what every rule has to beat."""

    def __init__(self, replicas: int) -> None:
        self.name = f"static-{replicas}"
        self._replicas = replicas

    def tick(self, seen: Snapshot) -> int | None:  # noqa: ARG002 - the fleet is fixed
        """The same each time."""
        return self._replicas


class Hpa:
    """The Kubernetes HPA (v2): every 15 s, tolerance 0.1, up at once by at most 100 % or 4, down to the most of the last 300 s.

    Source: kubernetes/kubernetes pkg/controller/podautoscaler. `up_window` and the steps are those of its behaviour field.
    """

    def __init__(
        self, least: int, most: int, *, up_window: float = 0.0, down_window: float = 300.0, add: int = 4
    ) -> None:
        self._least, self._most, self._add = least, most, add
        self._up_window, self._down_window = up_window, down_window
        self._calls: deque[tuple[float, int]] = deque()
        self._last = -math.inf

    def due(self, now: float) -> bool:
        """Whether the loop runs at this tick."""
        if now - self._last < 15.0 - 1e-9:
            return False
        self._last = now
        return True

    def follow(self, now: float, wanted: int, desired: int) -> int:
        """Apply windows, steps and bounds to what the metric asks for."""
        self._calls.append((now, desired))
        while self._calls[0][0] < now - max(self._up_window, self._down_window):
            self._calls.popleft()
        fewest = (
            min([wanted, desired])
            if not self._up_window
            else min([call for at, call in self._calls if at >= now - self._up_window])
        )
        most = max(call for at, call in self._calls if at >= now - self._down_window)
        target = desired
        if desired > wanted:
            target = max(wanted, desired if not self._up_window else fewest)
            target = min(target, max(2 * wanted, wanted + self._add))
        elif desired < wanted:
            target = min(wanted, most)
        return min(self._most, max(self._least, target))

    @staticmethod
    def tolerated(wanted: int, ratio: float) -> int:
        """Replicas for a ratio of metric over target, unless it is within a tenth of one."""
        return wanted if abs(ratio - 1) <= 0.1 else math.ceil(wanted * ratio)


class KedaWaiting:
    """vLLM production-stack's chart: KEDA on vllm:num_requests_waiting, threshold 5 (AverageValue)."""

    def __init__(self, threshold: float = 5.0, least: int = 1, most: int = 24) -> None:
        self.name = f"keda-waiting-{threshold:g}"
        self._threshold, self._hpa = threshold, Hpa(least, most)

    def tick(self, seen: Snapshot) -> int | None:
        """No series reads as zero, as KEDA's ignoreNullValues does."""
        if not self._hpa.due(seen.now):
            return None
        waiting = (parse(seen.page[1]).waiting or 0.0) if seen.page else 0.0
        ratio = waiting / (self._threshold * max(1, seen.wanted))
        return self._hpa.follow(seen.now, seen.wanted, self._hpa.tolerated(seen.wanted, ratio))


class HpaRunning:
    """HPA on running and waiting requests per replica (AverageValue)."""

    def __init__(self, target: float = 32.0, least: int = 1, most: int = 24) -> None:
        self.name = f"hpa-running-{target:g}"
        self._target, self._hpa = target, Hpa(least, most)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._hpa.due(seen.now) or seen.page is None:
            return None
        page = parse(seen.page[1])
        ratio = ((page.running or 0) + (page.waiting or 0)) / (self._target * max(1, seen.wanted))
        return self._hpa.follow(seen.now, seen.wanted, self._hpa.tolerated(seen.wanted, ratio))


class SloAware:
    """llm-d's SLO-aware KEDA rule (guides/workload-autoscaling/slo-aware), with the scenario's objectives in place of 3 s and 100 ms.

    s_raw = max(P90 TTFT / limit, P90 TPOT / limit) over one minute, at most 2; s = its mean over 45 s. Above 0.55:
    n + ceil(n (s c / 0.55 - 1)) with c = ready / n; below 0.40: n - floor(n (1 - s / 0.40)). Up window 30 s and at most
    100 % or 4 per minute; down window 180 s and one per two minutes.
    """

    def __init__(self, ttft: float, tpot: float, least: int = 1, most: int = 24, scale: float = 1.0) -> None:
        self.name = "llm-d-slo-aware" if scale == 1.0 else f"llm-d-slo-aware-x{scale:g}"
        self._limits, self._bounds, self._scale = (ttft, tpot), (least, most), scale
        self._pages: deque[tuple[float, MetricsPage]] = deque()
        self._raw: deque[tuple[float, float]] = deque()
        self._calls: deque[tuple[float, int]] = deque()
        self._last = self._up = self._down = -math.inf

    def tick(self, seen: Snapshot) -> int | None:
        """Every 15 s."""
        if seen.page is None or seen.now - self._last < 15.0 - 1e-9:
            return None
        self._last = seen.now
        self._pages.append((seen.page[0], parse(seen.page[1])))
        while len(self._pages) > 1 and self._pages[1][0] <= seen.page[0] - 60.0:
            self._pages.popleft()
        delta = between(self._pages[0][1], self._pages[-1][1])
        raw = 0.0
        for histogram, limit in zip((delta.first_token, delta.per_output_token), self._limits, strict=True):
            raw = max(raw, ((histogram.quantile(0.9) or 0.0) if histogram else 0.0) / limit)
        self._raw.append((seen.now, min(2.0, raw * self._scale)))
        while self._raw[0][0] < seen.now - 45.0:
            self._raw.popleft()
        strain = sum(each for _, each in self._raw) / len(self._raw)
        n = max(1, seen.wanted)
        credit = seen.ready / n if 0 < seen.ready < n else 1.0
        desired = n
        if strain * credit > 0.55:
            desired = n + math.ceil(n * (strain * credit / 0.55 - 1))
        elif strain < 0.40:
            desired = n - math.floor(n * (1 - strain / 0.40))
        desired = min(self._bounds[1], max(self._bounds[0], desired))
        self._calls.append((seen.now, desired))
        while self._calls[0][0] < seen.now - 180.0:
            self._calls.popleft()
        low = min(call for at, call in self._calls if at >= seen.now - 30.0)
        high = max(call for _, call in self._calls)
        if low > n and seen.now - self._up >= 60.0:
            self._up = seen.now
            return min(low, max(2 * n, n + 4))
        if high < n and seen.now - self._down >= 120.0:
            self._down = seen.now
            return n - 1
        return None
