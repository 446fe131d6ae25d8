"""How long a replica takes from being asked for to being ready: quantiles of the starts that were measured."""

from dataclasses import dataclass
from typing import Final

_KEPT: Final = 32
_GUESS_WEIGHT: Final = 2
"""Starts that the first guess is worth, so that one lucky start does not set the horizon."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds of the newest starts."""

    seconds: tuple[float, ...] = ()

    def seen(self, started: tuple[float, ...]) -> "Starts":
        """With the starts that ended since."""
        return Starts((*self.seconds, *(each for each in started if each > 0))[-_KEPT:])

    def quantile(self, share: float, guess: float) -> float:
        """The seconds that this share of starts does not exceed; the guess counts as two starts until ten were measured."""
        guesses = (guess,) * _GUESS_WEIGHT if len(self.seconds) < 10 else ()
        ordered = sorted((*self.seconds, *guesses))
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        between: float = ordered[low] + (place - low) * (ordered[high] - ordered[low])
        return between
