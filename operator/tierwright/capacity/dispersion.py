"""How bursty arrivals are: the index of dispersion of counts, measured from one slot to the next."""

import math
from dataclasses import dataclass
from typing import Final

_MEMORY: Final = 240
"""Slots over which a count fades."""


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Fading means of the count per slot and of half the squared difference of neighbouring counts.

    Differences are free of the daily trend, which plain variance would take for bursts. The index is 1 for Poisson
    arrivals; public traces have 3 to 206 per minute.
    """

    count: float = 0.0
    spread: float = 0.0
    last: float = -1.0

    def seen(self, arrivals: float) -> "Dispersion":
        """After one more slot."""
        if self.last < 0:
            return Dispersion(arrivals, arrivals, arrivals)
        kept = 1 - 1 / _MEMORY
        half_square = (arrivals - self.last) ** 2 / 2
        return Dispersion(
            kept * self.count + (1 - kept) * arrivals,
            kept * self.spread + (1 - kept) * half_square,
            arrivals,
        )

    @property
    def index(self) -> float:
        """Variance over mean of the counts; at least that of Poisson arrivals."""
        return max(1.0, self.spread / self.count) if self.count > 0 else 1.0

    def headroom(self, rate: float, work: float, seconds: float, deviations: float) -> float:
        """Replicas at their limit for the work that so many deviations of the arrivals bring within the seconds.

        The standard deviation of arriving work over h seconds is `work·sqrt(index·rate·h)`; divided by h it is a load.
        """
        return deviations * work * math.sqrt(self.index * rate / seconds) if seconds > 0 else 0.0
