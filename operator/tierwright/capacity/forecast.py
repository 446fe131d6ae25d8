"""Says how much work will arrive when a replica asked for now is ready, as a distribution.

Four experts (level, growth, time of day, time of week) are blended by their recent loss. How far the blend was off at the
same horizon is kept as a fading histogram: what may come is measured, not assumed.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Final

from tierwright.capacity.need import Outlook
from tierwright.capacity.season import Season

EXPERTS: Final = ("Level", "Growth", "Day", "Week")
SLOT: Final = 60.0
"""Seconds of one slot; bursts within a slot are part of what the share of the work limit is learned from."""
_SMOOTHING: Final = 0.3
"""Weight of the newest slot in the errors that steer the level."""
_SLOWEST: Final = 0.15
_FASTEST_LEVEL: Final = 0.9
"""Bounds on the weight of the newest slot in the level."""
_GROWTH: Final = 0.2
_FASTEST: Final = 1.6
"""Growth over a horizon that is believed; public traces grow by up to 1.58x in ten minutes (99th percentile)."""
_LOSS_MEMORY: Final = 180
"""Slots over which a loss fades."""
_SHARPNESS: Final = 12.0
"""How sharply the weights follow the losses."""
_GAP_STEP: Final = 0.15
_GAP_UNIT: Final = 0.1
_GAPS: Final = 81
"""Bins of the gap, seen less foretold in units of the root of what was foretold: what arrives in clusters varies with the root of its
mean. Narrow bins near zero and wide ones far off, from -20 to 20."""
_GAP_MEMORY: Final = 1440
"""Slots over which a gap fades: a day."""
_PRIOR_GAPS: Final = 30.0
"""Slots that the prior spread is worth."""
_PRIOR_SPREAD: Final = 0.25
_FLOOR: Final = 0.1
"""Demand (in replicas at their limit) that is added to what is foretold, so that nothing is not thought to stay nothing for sure."""
_MOST_PENDING: Final = 64
_NEGLIGIBLE: Final = 1e-4


def _prior_gaps() -> tuple[float, ...]:
    weights = [math.exp(-0.5 * (_gap_at(place) / _PRIOR_SPREAD) ** 2) for place in range(_GAPS)]
    return tuple(_PRIOR_GAPS * weight / sum(weights) for weight in weights)


def _gap_at(place: int) -> float:
    return _GAP_UNIT * math.sinh((place - _GAPS // 2) * _GAP_STEP)


@dataclass(frozen=True, slots=True)
class Pending:
    """A forecast whose time has not come."""

    due: float
    experts: tuple[float, ...]
    blend: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What was learned of the demand. Demand is in replicas at their work limit (work per second)."""

    level: float = 0.0
    error: float = 0.0
    """Smoothed error of the level, with its sign."""
    spread: float = 0.0
    """Smoothed size of that error. The level follows by their ratio (Trigg and Leach): gusts cancel, a step does not."""
    growth: float = 0.0
    """Change of the level per second."""
    slots: int = 0
    """Slots seen, up to a day's."""
    season: Season = field(default_factory=Season)
    losses: tuple[float, ...] = (0.0,) * len(EXPERTS)
    pending: tuple[Pending, ...] = ()
    gaps: tuple[float, ...] = _prior_gaps()

    def seen(self, at: float, seconds: float, demand: float, horizon: float) -> "Forecast":
        """After one more slot, which ended at `at`; a forecast for `at + horizon` is left pending."""
        moved = self._judged(at, seconds, demand).glimpsed(demand)
        slope = (moved.level - self.level) / seconds if self.slots else 0.0
        updated = replace(
            moved,
            growth=self.growth + _GROWTH * (slope - self.growth),
            slots=min(_GAP_MEMORY, self.slots + 1),
            season=self.season.seen(at, seconds, demand),
        )
        due = at + horizon
        experts = updated.by_expert(at, due)
        pending = Pending(due, experts, updated._blended(experts))
        return replace(updated, pending=(*updated.pending, pending)[-_MOST_PENDING:])

    def glimpsed(self, demand: float) -> "Forecast":
        """With the level moved by the demand of a slot, or by that of the last minute before its slot is full."""
        if not self.slots:
            return replace(self, level=demand)
        miss = demand - self.level
        error = self.error + _SMOOTHING * (miss - self.error)
        spread = self.spread + _SMOOTHING * (abs(miss) - self.spread)
        trust = abs(error) / spread if spread > 0 else 0.0
        weight = min(_FASTEST_LEVEL, max(_SLOWEST, trust))
        return replace(self, level=self.level + weight * miss, error=error, spread=spread)

    def by_expert(self, now: float, due: float) -> tuple[float, ...]:
        """What each expert foretells. An expert that has not seen the time of day or week yet says what the level says."""
        ahead = due - now
        most = self.level * _FASTEST ** min(3.0, ahead / 600.0 + 0.5)
        growing = min(most, max(self.level / _FASTEST, self.level + self.growth * ahead))
        return (
            self.level,
            growing,
            self._seasonal(self.season.of_day(now), self.season.of_day(due)),
            self._seasonal(self.season.of_week(now), self.season.of_week(due)),
        )

    def expected(self, now: float, due: float) -> float:
        """The blend for one time."""
        return self._blended(self.by_expert(now, due))

    def outlook(self, expected: float, more: float = 0.0) -> Outlook:
        """What may come where the blend foretells `expected`, by how far it was off before; `more` is certain."""
        least = _NEGLIGIBLE * sum(self.gaps)
        likely = [(_gap_at(place), weight) for place, weight in enumerate(self.gaps) if weight > least]
        total = sum(weight for _, weight in likely)
        unit = math.sqrt(expected + _FLOOR)
        return Outlook(
            tuple((more + max(0.0, expected + gap * unit), weight / total) for gap, weight in likely)
        )

    def weights(self) -> tuple[float, ...]:
        """Weight of each expert in the blend."""
        best = min(self.losses)
        raw = [math.exp(-_SHARPNESS * (loss - best) / max(0.02, best)) for loss in self.losses]
        return tuple(each / sum(raw) for each in raw)

    def _seasonal(self, usual_now: float | None, usual_then: float | None) -> float:
        if usual_now is None or usual_then is None:
            return self.level
        ratio = (usual_then + _FLOOR) / (usual_now + _FLOOR)
        return self.level * min(4.0, max(0.25, ratio))

    def _blended(self, experts: tuple[float, ...]) -> float:
        return sum(weight * each for weight, each in zip(self.weights(), experts, strict=True))

    def _judged(self, at: float, seconds: float, demand: float) -> "Forecast":
        """With the pending forecasts for this slot judged. Those whose time passed without data are dropped."""
        due = [each for each in self.pending if at - seconds < each.due <= at]
        losses, gaps = list(self.losses), list(self.gaps)
        kept = 1 - 1 / _LOSS_MEMORY
        for each in due:
            for place, foretold in enumerate(each.experts):
                losses[place] = kept * losses[place] + (1 - kept) * abs(_ratio(demand, foretold))
            gap = (demand - each.blend) / math.sqrt(each.blend + _FLOOR)
            place = round(math.asinh(gap / _GAP_UNIT) / _GAP_STEP) + _GAPS // 2
            gaps = [weight * (1 - 1 / _GAP_MEMORY) for weight in gaps]
            gaps[min(_GAPS - 1, max(0, place))] += 1.0
        left = tuple(each for each in self.pending if each.due > at)
        return replace(self, losses=tuple(losses), gaps=tuple(gaps), pending=left)


def _ratio(seen: float, foretold: float) -> float:
    """Logarithm of seen over foretold."""
    return math.log((seen + _FLOOR) / (foretold + _FLOOR))
