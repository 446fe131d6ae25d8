"""Learns an engine's step time from what its pods measured: a robust regression that falls back on the accelerator's prior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tierwright.capacity.samples import PodSample
from tierwright.capacity.work import StepTime

_BANDS: Final = 12
"""Bands of batch size, each twice as wide as the one before, that keep their own points."""
_PER_BAND: Final = 16
"""Newest points kept per band: what a busy hour taught outlives a quiet night."""
_ROUNDS: Final = 10
_OUTLIER: Final = 1.345
"""Residuals beyond this many deviations lose weight (Huber's constant: 95 % efficiency at the normal distribution)."""
_PRIOR_WEIGHT: Final = 0.3
"""Bands of points that the prior is worth, per coefficient. With less the fit drifts over a day by more than half: tokens and prompts
come together, and a load that is measured by another rule each hour teaches nothing of what holds."""
_NOISE: Final = 0.05
"""Relative error that no measurement of an interval is without; a smaller spread makes nothing an outlier."""


@dataclass(frozen=True, slots=True)
class Point:
    """One interval of one pod: mean batch, context and prefill of its steps, and the seconds between two tokens."""

    batch: float
    context: float
    prefill: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StepPoints:
    """The points of a tier by band of batch size."""

    bands: tuple[tuple[Point, ...], ...] = ((),) * _BANDS

    def seen(self, pods: Sequence[PodSample], young: float) -> "StepPoints":
        """With the points of pods that are warm; a young pod still compiles, and its steps are not the engine's."""
        bands = list(self.bands)
        for pod in pods:
            point = _point(pod)
            if pod.age >= young and point is not None:
                band = min(_BANDS - 1, int(math.log2(max(1.0, point.batch))))
                bands[band] = (*bands[band], point)[-_PER_BAND:]
        return StepPoints(tuple(bands))

    def fit(self, prior: StepTime) -> StepTime:
        """Huber regression with coefficients of at least zero, drawn to the prior's shape at the scale of the points.

        The scale alone is learned from the first points; each coefficient leaves the prior as far as the points carry it.
        """
        points = [point for band in self.bands for point in band]
        if not points:
            return prior
        # Bands count alike, however many points each has: a load that was seen once is not an outlier of the usual one.
        fair = [1 / len(band) for band in self.bands for _ in band]
        scale = median(p.seconds / prior.seconds(p.batch, p.context, p.prefill) for p in points)
        start = prior.scaled(scale)
        fitted = start
        for _ in range(_ROUNDS):
            weights = [a * b for a, b in zip(fair, _weights(points, fitted), strict=True)]
            last, fitted = fitted, _least_squares(points, weights, start)
            if fitted.near(last):
                break
        return fitted


def _point(pod: PodSample) -> Point | None:
    """The pod's interval as a point; None when it was idle or does not tell enough."""
    if pod.token_seconds is None or pod.token_seconds <= 0 or not pod.output_tokens:
        return None
    steps = pod.steps or pod.seconds / pod.token_seconds
    if steps < 1:
        return None
    batch = pod.output_tokens / steps
    computed = max(0.0, (pod.prompt_tokens or 0.0) - (pod.cached_tokens or 0.0))
    return Point(batch, pod.context_tokens or 0.0, computed / steps, pod.token_seconds)


def _weights(points: Sequence[Point], model: StepTime) -> list[float]:
    """Huber weights of relative residuals: a slow engine's errors count as a fast one's."""
    gaps = [p.seconds / model.seconds(p.batch, p.context, p.prefill) - 1 for p in points]
    deviation = max(_NOISE, 1.4826 * median(abs(gap) for gap in gaps))
    return [min(1.0, _OUTLIER * deviation / max(1e-12, abs(gap))) for gap in gaps]


def _least_squares(points: Sequence[Point], weights: Sequence[float], prior: StepTime) -> StepTime:
    """Weighted ridge regression of relative errors around the prior; a coefficient below zero is set to zero and the rest solved again.

    Each unknown is a factor on the prior's coefficient, so that all four have the same scale.
    """
    base = (prior.fixed, prior.batch, prior.context, prior.prefill)
    rows = [
        [
            coefficient * feature / p.seconds
            for coefficient, feature in zip(base, (1.0, p.batch, p.context, p.prefill), strict=True)
        ]
        for p in points
    ]
    free = list(range(4))
    while True:
        normal = [
            [sum(w * r[i] * r[j] for w, r in zip(weights, rows, strict=True)) for j in free] for i in free
        ]
        right = [sum(w * r[i] for w, r in zip(weights, rows, strict=True)) for i in free]
        for place, i in enumerate(free):
            ridge = _PRIOR_WEIGHT * sum(r[i] * r[i] for r in rows) / len(rows) + 1e-9
            normal[place][place] += ridge
            right[place] += ridge
        factors = _solved(normal, right)
        lowest = min(range(len(free)), key=lambda place: factors[place])
        if factors[lowest] >= 0:
            break
        del free[lowest]
    found = dict(zip(free, factors, strict=True))
    return StepTime(*(base[i] * found.get(i, 0.0) for i in range(4)))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a small positive definite system, by elimination."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [low - factor * high for low, high in zip(rows[j], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution
