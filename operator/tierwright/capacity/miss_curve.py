"""Learns which share of requests misses its objectives at each load and number of replicas, from the misses seen.

The load at which objectives hold lies anywhere from 0.3 to 0.8 of an engine's limit, by traffic and accelerator, so no threshold
is built in. A request meets its objectives at load u on n replicas with the probability
`(1 - floor) · 1 / (1 + (u / middle)^steepness) / (1 + clump · u / n^sharing)`: misses that no replica prevents (long prompts),
saturation, and requests that land behind a burst, which more replicas share out. Without the last factor one replica at night and
four by day look alike at one load, though one replica misses ten times as often. Saturation, too, sets in later and more steeply where
more replicas share the arrivals. A grid of such curves is weighed by how well each explains what was seen; the mean curve
answers. Evidence fades over hours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Final

from tierwright.capacity.work import Accelerator

_FLOORS: Final = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
_MIDDLES: Final = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 1.0, 1.5, 3.0)
_STEEPNESSES: Final = (3.0, 6.0, 12.0)
_BURSTS: Final = ((0.0, 1.5), *product((0.05, 0.2, 0.6, 2.0, 6.0), (1.5, 2.5)))
"""Clump and sharing."""
_SLOPES: Final = tuple(product(_MIDDLES, _STEEPNESSES))
_SIZE: Final = len(_FLOORS) * len(_SLOPES) * len(_BURSTS)
_HALF_LIFE: Final = 6 * 3600.0
"""Seconds of traffic after which evidence counts half."""
_TRIED_HALF_LIFE: Final = 7 * 86_400.0
"""The same for the highest load: a load that held last week is not unknown today."""
_USUAL_CLUMP: Final = 0.1
"""What chat has. Traffic in bursts of seconds has fifty times as much, so the prior falls with the logarithm."""
_MOST_SHARING: Final = 16.0
"""Replicas beyond which further ones smooth the arrivals no more."""
_NEGLIGIBLE: Final = 1e-4
"""Share of all weights below which a curve's shape is left out of the mean."""
_GRID: Final = 0.02
_POINTS: Final = 101
"""Loads from 0 to 2 in steps of the grid."""
_LOADS: Final = tuple(place * _GRID for place in range(_POINTS))
_BOLD: Final = 1.25
_LEAST: Final = -1000.0
"""Log-likelihood that no curve falls below, so that what was ruled out for long can come back within a day."""
SATURATION: Final = 0.95
"""Share of its work limit at which an engine drains a backlog."""

# The middles of the prior: from traffic mixes of an 8B model on A100 and H100 (Poisson arrivals, TTFT 1 s, TPOT 60 ms); the
# others assumed a little lower, since static shapes and shared cores leave less room. They are those of many replicas.
_PRIOR_MIDDLE: Final[dict[Accelerator, float]] = {"nvidia": 0.9, "neuron": 0.85, "cpu": 0.8}


@dataclass(frozen=True, slots=True)
class Curve:
    """One way in which misses may rise with load."""

    floor: float
    middle: float
    steepness: float
    clump: float = 0.0
    sharing: float = 1.5

    def misses(self, load: float, replicas: float = 1.0) -> float:
        """Share of requests that miss at this load per replica."""
        apart: float = 1 + self.clump * load / replicas**self.sharing
        return 1 - (1 - self.floor) * _unsaturated(load, self.middle, self.steepness, replicas) / apart


def _unsaturated(load: float, middle: float, steepness: float, replicas: float) -> float:
    """Share that saturation leaves. The more replicas share the arrivals, the later and the steeper it sets in."""
    shared = min(_MOST_SHARING, replicas)
    share: float = 1 / (1 + (load * (shared + 0.5) / shared / middle) ** (steepness * shared / (shared + 1)))
    return share


@cache
def curves() -> tuple[Curve, ...]:
    """The grid."""
    return tuple(Curve(f, *slope, *burst) for f, slope, burst in product(_FLOORS, _SLOPES, _BURSTS))


@cache
def _prior(accelerator: Accelerator) -> tuple[float, ...]:
    """Logarithm of each curve's weight before anything was seen."""
    middle = _PRIOR_MIDDLE[accelerator]
    return tuple(
        -0.5 * ((c.middle - middle) / 0.15) ** 2
        - 0.5 * (math.log(c.steepness / 7) / 0.6) ** 2
        - c.floor / 0.01
        - (0.5 * (math.log(c.clump / _USUAL_CLUMP) / 1.5) ** 2 if c.clump else 1.0)
        for c in curves()
    )


def _logarithms(load: float, replicas: float) -> list[tuple[float, float]]:
    """Logarithms of the probabilities of a miss and of a hit, for each curve; no curve is ever certain."""
    slopes = [_unsaturated(load, *slope, replicas) for slope in _SLOPES]
    bursts = [1 / (1 + clump * load / replicas**sharing) for clump, sharing in _BURSTS]
    some = [slope * burst for slope in slopes for burst in bursts]
    hits = [min(1 - 1e-4, max(1e-4, (1 - floor) * each)) for floor in _FLOORS for each in some]
    return [(math.log(1 - hit), math.log(hit)) for hit in hits]


@dataclass(frozen=True, slots=True)
class MissEvidence:
    """What was seen: the log-likelihood of each curve of the grid, fading."""

    likelihood: tuple[float, ...] = (0.0,) * _SIZE
    tried: float = 0.0
    """Highest load seen, fading."""

    def seen(
        self, load: float, replicas: float, requests: float, misses: float, seconds: float, clump: float
    ) -> "MissEvidence":
        """After `requests` at one load (work arriving over the work that the ready replicas could do), of which some missed.

        Requests of one burst miss together, so `clump` of them (the arrivals' index of dispersion) count as one.
        """
        if requests <= 0:
            return self
        kept = 0.5 ** (seconds / _HALF_LIFE)
        weight = 1 / max(1.0, clump)
        missed, met = weight * misses, weight * max(0.0, requests - misses)
        updated = [
            kept * old + missed * miss + met * hit
            for old, (miss, hit) in zip(self.likelihood, _logarithms(load, replicas), strict=True)
        ]
        best = max(updated)
        tried = max(load, 0.5 ** (seconds / _TRIED_HALF_LIFE) * self.tried)
        return MissEvidence(tuple(max(_LEAST, each - best) for each in updated), tried)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of weighed curves: what weighs enough to be counted."""

    parts: tuple[tuple[float, int, float, float], ...]
    """Weight, floor taken off, of a slope with a clump and its sharing."""

    def at(self, replicas: float) -> tuple[float, ...]:
        """Share of requests that miss at each load of the grid."""
        saturation = _saturation(min(_MOST_SHARING, replicas))
        shares = [1.0] * _POINTS
        for weight, slope, clump, sharing in self.parts:
            few = clump / replicas**sharing
            shares = [
                share - weight * left / (1 + few * load)
                for share, left, load in zip(shares, saturation[slope], _LOADS, strict=True)
            ]
        return tuple(shares)


@dataclass(frozen=True, slots=True)
class MissCurve:
    """What was learned: the share of requests that miss at each load and number of replicas."""

    mean: Mean
    doubt: Mean
    """What is the least that is expected beyond the known loads."""
    known: float
    floor: float
    """Share of requests that miss however many replicas there are."""

    def at(self, replicas: float) -> tuple[float, ...]:
        """Share of requests that miss at each load of the grid, for `read_off`."""
        return _table(self, replicas)

    def misses(self, load: float, replicas: float) -> float:
        """Share of requests that miss at this load (work arriving over the work limit) per replica."""
        return read_off(self.at(replicas), load)

    def holds(self, allowed: float, replicas: float) -> float:
        """The highest load of the grid at which no more than the allowed share misses; 0 where it holds nowhere."""
        places = (place for place, share in enumerate(self.at(replicas)) if share > allowed)
        return max(0, next(places, _POINTS) - 1) * _GRID


@lru_cache(maxsize=64)
def _table(curve: MissCurve, replicas: float) -> tuple[float, ...]:
    """The mean curve, and beyond the known loads no less than the doubt."""
    table = curve.mean.at(replicas)
    known = int(curve.known / _GRID) + 1
    unknown = zip(table[known:], _doubted(curve.doubt, replicas)[known:], strict=True)
    return (*table[:known], *(max(share, doubt) for share, doubt in unknown))


@lru_cache(maxsize=256)
def _doubted(doubt: Mean, replicas: float) -> tuple[float, ...]:
    """The doubt's table: it stays, whatever is learned."""
    return doubt.at(replicas)


def read_off(table: Sequence[float], load: float) -> float:
    """The share at a load, linear between the loads of the grid."""
    place = min(max(0.0, load) / _GRID, _POINTS - 1.0)
    low = min(int(place), _POINTS - 2)
    return table[low] + (place - low) * (table[low + 1] - table[low])


@lru_cache(maxsize=256)
def learned(evidence: MissEvidence, accelerator: Accelerator) -> MissCurve:
    """The mean of the curves, each weighed by the prior and by how well it explains what was seen.

    A quarter beyond the highest load that was tried the prior's mean curve is the least that is expected: that nothing
    missed at one load says little of twice that load.
    """
    logs = [a + b for a, b in zip(_prior(accelerator), evidence.likelihood, strict=True)]
    mean, floor = _mean(logs)
    return MissCurve(mean, _doubt(accelerator), _BOLD * evidence.tried, floor)


@cache
def _doubt(accelerator: Accelerator) -> Mean:
    """The prior's mean curve."""
    return _mean(_prior(accelerator))[0]


@lru_cache(maxsize=64)
def _saturation(replicas: float) -> tuple[tuple[float, ...], ...]:
    """Share that saturation leaves, for each slope at each load of the grid."""
    return tuple(
        tuple(_unsaturated(k * _GRID, *slope, replicas) for k in range(_POINTS)) for slope in _SLOPES
    )


def _mean(logs: Sequence[float]) -> tuple[Mean, float]:
    """The mean curve of weights given by their logarithms, and its floor."""
    best = max(logs)
    weights = [math.exp(each - best) for each in logs]
    total, floor = sum(weights), 0.0
    shapes = tuple((slope, *burst) for slope in range(len(_SLOPES)) for burst in _BURSTS)
    met = dict.fromkeys(shapes, 0.0)
    for weight, (lost, shape) in zip(weights, product(_FLOORS, shapes), strict=True):
        floor += weight * lost / total
        met[shape] += weight * (1 - lost) / total
    kept = {shape: share for shape, share in met.items() if share > _NEGLIGIBLE}
    scale = (1 - floor) / sum(kept.values())
    return Mean(tuple((scale * share, *shape) for shape, share in kept.items())), floor
