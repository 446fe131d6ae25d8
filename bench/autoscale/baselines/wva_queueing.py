"""The Workload Variant Autoscaler's queueing model (parked: its engine dispatches it no more), as a baseline of research.

Source: llm-d-workload-variant-autoscaler internal/engines/analyzers/queueingmodel (analyzer, tuner) and pkg/analyzer. A replica is a
state-dependent M/M/1 queue whose step takes alpha + n (beta (i + o) / (o + 1) + gamma (i + o / 2)) with n requests in it; an
extended Kalman filter learns alpha, beta, gamma from mean TTFT and ITL; the largest rate that meets both objectives in the mean gives
replicas = ceil(rate / largest rate). Start: solved from the first means with alpha = 0.9 ITL, or where that gives no positive
parameters 5, 0.05 and 5e-5 ms; batch 256, queue 100; an innovation with NIS from 7.378 on is refused; the first 120 s after a growth
teach nothing. It looks every 15 s and an HPA follows with AverageValue 1.
"""

from dataclasses import dataclass

from bench.autoscale.baselines.hpa import LOOP, Behaviour, for_average
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages, Ready, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse
from tierwright.observe.page_delta import PageDelta

QUEUE = 100
"""Requests that wait at most."""
START = (5.0, 0.05, 5e-5)
"""alpha, beta and gamma in milliseconds."""
NIS = 7.378
TRANSIENT = 120.0
_ERROR, _PERCENTILE, _CHANGE = 0.05, 1.96, 0.05
"""Level of the measurements' error at this percentile of a normal distribution, and the share by which the state may change."""
_LEAST, _MOST = 0.01, 100.0
"""Bounds of the state, as factors of its start."""
_BASE = 0.9
"""Share of the first ITL that is taken for alpha."""
_ROUNDS = 16

State = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """A mean request: prompt and output tokens."""

    prompt: float
    output: float


def latencies(state: State, shape: Shape, rate: float, batch: int) -> tuple[float, float] | None:
    """Mean TTFT and ITL in milliseconds at so many requests a millisecond; None where the queue has no mean short of its end."""
    alone, added = _service(state, shape, 0), _service(state, shape, 1) - _service(state, shape, 0)
    total = weight = 1.0
    served = queued = 0.0
    for n in range(1, batch + QUEUE + 1):
        busy = min(n, batch)
        weight *= rate * (alone / busy + added)
        total += weight
        served += weight * busy
        queued += weight * (n - busy)
        if total > 1e200:
            return None
        if weight < 1e-9 * total:
            break
    inside, waiting = served / total, queued / total
    prefill, decode = _steps(state, shape, inside)
    return waiting / rate + prefill, decode


def largest_rate(state: State, shape: Shape, ttft: float, itl: float, batch: int) -> float:
    """The largest rate (requests a millisecond) whose mean latencies meet both limits (milliseconds); 0 where none does."""

    def meets(rate: float) -> bool:
        found = latencies(state, shape, rate, batch)
        return found is not None and found[0] <= ttft and found[1] <= itl

    low, high = 0.0, batch / _service(state, shape, batch)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low if meets(max(low, 1e-12)) else 0.0


def _steps(state: State, shape: Shape, inside: float) -> tuple[float, float]:
    """Milliseconds of a prefill and of a decoded token with so many requests in the replica."""
    alpha, beta, gamma = state
    prompt, output = shape.prompt, shape.output
    held = beta * (prompt + output) / (output + 1) + gamma * (prompt + output / 2)
    step = alpha + inside * held
    return step + (beta + gamma) * prompt, step + beta + gamma * (prompt + output / 2)


def _service(state: State, shape: Shape, inside: float) -> float:
    prefill, decode = _steps(state, shape, inside)
    return prefill + max(0.0, shape.output - 1) * decode


class Filter:
    """The extended Kalman filter: three parameters, two measurements, a Jacobian by differences of 5 %."""

    def __init__(self) -> None:
        self.state = self._start = START
        self._spread = _diagonal(START)
        self._begun = False

    def begin(self, shape: Shape, measured: tuple[float, float]) -> None:
        """Take the first means (milliseconds) for a start; later ones change nothing."""
        if not self._begun:
            self._begun = True
            self.state = self._start = guessed(shape, *measured) or START
            self._spread = _diagonal(self._start)

    def learn(self, shape: Shape, rate: float, measured: tuple[float, float], batch: int) -> bool:
        """Take in mean TTFT and ITL (milliseconds) at a rate (requests a millisecond); whether it was believed."""
        state = self.state
        spread = [row[:] for row in self._spread]
        for place, each in enumerate(state):
            spread[place][place] += (_CHANGE * each) ** 2
        expected = latencies(state, shape, rate, batch)
        if expected is None:
            return False
        slopes: list[list[float]] = []
        for place, each in enumerate(state):
            near = [
                latencies(_moved(state, place, each * factor), shape, rate, batch)
                for factor in (1 - _CHANGE, 1 + _CHANGE)
            ]
            if near[0] is None or near[1] is None:
                return False
            slopes.append([(b - a) / (2 * _CHANGE * each) for a, b in zip(*near, strict=True)])
        noise = [(_ERROR * max(1e-3, value) / _PERCENTILE) ** 2 for value in measured]
        gain_of = [[sum(spread[i][k] * slopes[k][m] for k in range(3)) for m in range(2)] for i in range(3)]
        seen = [
            [
                sum(slopes[k][a] * gain_of[k][b] for k in range(3)) + (noise[a] if a == b else 0)
                for b in range(2)
            ]
            for a in range(2)
        ]
        determinant = seen[0][0] * seen[1][1] - seen[0][1] * seen[1][0]
        if determinant <= 0:
            return False
        inverse = [
            [seen[1][1] / determinant, -seen[0][1] / determinant],
            [-seen[1][0] / determinant, seen[0][0] / determinant],
        ]
        off = [value - other for value, other in zip(measured, expected, strict=True)]
        if sum(off[a] * inverse[a][b] * off[b] for a in range(2) for b in range(2)) >= NIS:
            return False
        gain = [[sum(gain_of[i][a] * inverse[a][b] for a in range(2)) for b in range(2)] for i in range(3)]
        moved = [state[i] + sum(gain[i][a] * off[a] for a in range(2)) for i in range(3)]
        bounds = [(_LEAST * each, _MOST * each) for each in self._start]
        alpha, beta, gamma = (
            min(high, max(low, value)) for value, (low, high) in zip(moved, bounds, strict=True)
        )
        self.state = (alpha, beta, gamma)
        self._spread = [
            [spread[i][j] - sum(gain[i][a] * gain_of[j][a] for a in range(2)) for j in range(3)]
            for i in range(3)
        ]
        return True


def guessed(shape: Shape, ttft: float, itl: float) -> State | None:
    """alpha, beta and gamma of one pair of means (milliseconds) of an idle replica; None where one would not be positive."""
    alpha = _BASE * itl
    both = (ttft - alpha) / shape.prompt
    span = shape.prompt + (shape.output + 1) / 2 - 1
    gamma = (itl - alpha - both) / span if span > 0 else 0.0
    beta = both - gamma
    return (alpha, beta, gamma) if min(alpha, beta, gamma) > 0 else None


def _diagonal(start: State) -> list[list[float]]:
    return [[(_CHANGE * each) ** 2 if i == j else 0.0 for j in range(3)] for i, each in enumerate(start)]


def _moved(state: State, place: int, value: float) -> State:
    alpha, beta, gamma = (value if i == place else each for i, each in enumerate(state))
    return alpha, beta, gamma


class WvaQueueing:
    """ceil(arrival rate / largest rate of one replica). `scale` multiplies the objectives that it is told."""

    KNOBS = (
        Knob("scale", 1, 0.1, 2, log=True),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self,
        ttft: float,
        tpot: float,
        least: int = 1,
        most: int = 24,
        batch: int = 256,
        *,
        scale: float = 1.0,
        down_window: float = 300.0,
    ) -> None:
        self.name = f"wva-queueing-{scale:g}"
        self._limits = ttft * 1000 * scale, tpot * 1000 * scale
        self._batch, self._bounds = batch, (least, most)
        self._pages, self._ready, self._loop = Pages(60.0), Ready(), Every(LOOP)
        self._filter = Filter()
        self._grown: tuple[int, float] = (0, -TRANSIENT)
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics, a minute without traffic and a model that meets the objectives at no rate keep the size."""
        self._ready.add(seen.now, seen.ready)
        if seen.ready > self._grown[0]:
            self._grown = seen.ready, seen.now
        self._grown = seen.ready, self._grown[1]
        if not self._loop.due(seen.now) or seen.page is None or not seen.ready:
            return None
        self._pages.add(seen.page[0], parse(seen.page[1]))
        traffic = _traffic(self._pages.delta, self._pages.span)
        if traffic is None:
            return None
        shape, rate, measured = traffic
        self._filter.begin(shape, measured)
        if seen.now - self._grown[1] >= TRANSIENT:
            self._filter.learn(shape, rate / self._ready.at(seen.page[0]), measured, self._batch)
        most = largest_rate(self._filter.state, shape, *self._limits, self._batch)
        if not most:
            return None
        asked = bounded(-(-rate // most), *self._bounds)
        n = max(1, seen.wanted)
        return self._behaviour.follow(seen.now, seen.wanted, for_average(asked, 1.0, n))


def _traffic(delta: PageDelta | None, seconds: float) -> tuple[Shape, float, tuple[float, float]] | None:
    """The mean request, the fleet's rate in requests a millisecond, and mean TTFT and ITL in milliseconds, over the pages' span."""
    if delta is None or not delta.finished or not delta.arrivals or not seconds:
        return None
    first, inter = delta.first_token, delta.inter_token
    if first is None or not first.count or inter is None or not inter.count:
        return None
    shape = Shape((delta.prompt_tokens or 0.0) / first.count, (delta.output_tokens or 0.0) / delta.finished)
    if shape.prompt <= 0 or shape.output <= 0:
        return None
    measured = 1000 * (first.sum or 0.0) / first.count, 1000 * inter.sum / inter.count
    return shape, delta.arrivals / seconds / 1000, measured
