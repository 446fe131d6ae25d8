"""Learns at which share of an engine's work limit the objectives still hold, from the misses seen at each load.

The share lies anywhere from 0.3 to 0.8, by traffic and accelerator, so no threshold is built in. The share of misses at
load u is taken as `floor + (1 - floor) / (1 + (middle / u)^steepness)`: misses that no replica prevents (long prompts),
and a slope up to saturation. A grid of such curves is weighed by how well each explains what was seen; the mean
curve answers. Evidence fades over hours, and what was never tried stays as doubtful as the prior.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from tierwright.capacity.work import Accelerator

_FLOORS: Final = (0.0, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3)
_MIDDLES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.5, 4.0)
_STEEPNESSES: Final = (1.2, 2.0, 3.0, 5.0, 8.0, 14.0)
_HALF_LIFE: Final = 6 * 3600.0
"""Seconds of traffic after which evidence counts half."""
_GRID: Final = 0.02
_POINTS: Final = 101
"""Loads from 0 to 2 in steps of the grid."""
_LIKELY: Final = 1e-3
_BOLD: Final = 1.25
_NOTHING: Final = 1e-3
"""Load below which the powers of a curve would overflow, and nothing misses but the floor."""
SATURATION: Final = 0.95
"""Share of its work limit at which an engine drains a backlog."""

# The middles of the prior: from traffic mixes of an 8B model on A100 and H100 (Poisson arrivals, TTFT 1 s, TPOT 60 ms); the
# others assumed a little lower, since static shapes and shared cores leave less room.
_PRIOR_MIDDLE: Final[dict[Accelerator, float]] = {"nvidia": 0.75, "neuron": 0.7, "cpu": 0.65}


@dataclass(frozen=True, slots=True)
class Curve:
    """One way in which misses may rise with load."""

    floor: float
    middle: float
    steepness: float

    def misses(self, load: float) -> float:
        """Share of requests that miss at this load."""
        if load < _NOTHING:
            return self.floor
        rising: float = 1 / (1 + (self.middle / load) ** self.steepness)
        return self.floor + (1 - self.floor) * rising


@cache
def curves() -> tuple[Curve, ...]:
    """The grid."""
    return tuple(Curve(f, m, s) for f in _FLOORS for m in _MIDDLES for s in _STEEPNESSES)


@cache
def _prior(accelerator: Accelerator) -> tuple[float, ...]:
    """Logarithm of each curve's weight before anything was seen."""
    middle = _PRIOR_MIDDLE[accelerator]
    return tuple(
        -0.5 * ((c.middle - middle) / 0.15) ** 2
        - 0.5 * (math.log(c.steepness / 7) / 0.6) ** 2
        - c.floor / 0.01
        for c in curves()
    )


@lru_cache(maxsize=512)
def _logarithms(load: float) -> tuple[tuple[float, float], ...]:
    """Logarithms of the probabilities of a miss and of a hit at this load, for each curve; no curve is ever certain."""
    shares = [min(1 - 1e-4, max(1e-4, curve.misses(load))) for curve in curves()]
    return tuple((math.log(share), math.log(1 - share)) for share in shares)


@dataclass(frozen=True, slots=True)
class MissEvidence:
    """What was seen: the log-likelihood of each curve of the grid, fading."""

    likelihood: tuple[float, ...] = (0.0,) * (len(_FLOORS) * len(_MIDDLES) * len(_STEEPNESSES))
    tried: float = 0.0
    """Highest load seen, fading."""

    def seen(
        self, load: float, requests: float, misses: float, seconds: float, clump: float
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
            for old, (miss, hit) in zip(self.likelihood, _logarithms(round(load, 2)), strict=True)
        ]
        best = max(updated)
        return MissEvidence(tuple(each - best for each in updated), max(load, kept * self.tried))


@dataclass(frozen=True, slots=True)
class MissCurve:
    """What was learned: the share of requests that miss at each load, read off at equal distances and linear in between."""

    table: tuple[float, ...]
    floor: float
    """Share of requests that miss however many replicas there are."""

    def misses(self, load: float) -> float:
        """Share of requests that miss at this load (work arriving over the work limit)."""
        place = min(max(0.0, load) / _GRID, len(self.table) - 1.0)
        low = min(int(place), len(self.table) - 2)
        return self.table[low] + (place - low) * (self.table[low + 1] - self.table[low])

    def holds(self, allowed: float) -> float:
        """The highest load at which no more than the allowed share misses; a share below the floor holds nowhere and gives 0."""
        place = next((place for place, share in enumerate(self.table) if share > allowed), len(self.table))
        if place in (0, len(self.table)):
            return place and (len(self.table) - 1) * _GRID
        low, high = self.table[place - 1], self.table[place]
        return (place - 1 + (allowed - low) / (high - low)) * _GRID


@lru_cache(maxsize=256)
def learned(evidence: MissEvidence, accelerator: Accelerator) -> MissCurve:
    """The mean of the curves, each weighed by the prior and by how well it explains what was seen.

    A quarter beyond the highest load that was tried the prior's mean curve is the least that is expected: that nothing
    missed at one load says little of twice that load.
    """
    prior = _prior(accelerator)
    logs = [a + b for a, b in zip(prior, evidence.likelihood, strict=True)]
    table, doubt = _mean(logs), _doubt(accelerator)
    known = int(_BOLD * evidence.tried / _GRID) + 1
    cautious = (*table[:known], *(max(a, b) for a, b in zip(table[known:], doubt[known:], strict=True)))
    return MissCurve(cautious, table[0])


@cache
def _doubt(accelerator: Accelerator) -> tuple[float, ...]:
    """The prior's mean curve."""
    return _mean(_prior(accelerator))


def _mean(logs: Sequence[float]) -> tuple[float, ...]:
    """The mean curve of weights given by their logarithms, as a table."""
    best = max(logs)
    weighed = [(math.exp(each - best), curve) for each, curve in zip(logs, curves(), strict=True)]
    total = sum(weight for weight, _ in weighed)
    likely = [(weight, curve) for weight, curve in weighed if weight > _LIKELY * total]
    total = sum(weight for weight, _ in likely)
    return tuple(
        sum(weight * curve.misses(place * _GRID) for weight, curve in likely) / total
        for place in range(_POINTS)
    )
