"""Steers what a miss is worth, so that the promise holds over the day, no better and no worse than it has to."""

import math
from dataclasses import dataclass
from typing import Final

_HALF_LIFE: Final = 12 * 3600.0
_GAIN: Final = 2.0 / 86_400
"""Fall of the price per second for each allowance that is unused: a day without misses divides it by e²."""
_SOONER: Final = 4.0
"""How much faster the price rises for a promise that is broken than it falls for one that is kept."""
_CHEAPEST: Final = 0.1
_DEAREST: Final = 10.0
_LITTLE: Final = 1000.0
"""Requests below which the share of misses means little."""
_ONE_SLOT: Final = 5.0
"""Allowances that one slot can use up. A burst that nothing could have held costs what it costs; to be three times as careful
for the day after buys nothing back."""
_LEAST: Final = 2.0
"""Price below which a replica would not be worth the work that it does."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Requests and misses of about the last day, fading, and what follows from them.

    The price of a miss is the multiplier of the promise: where each replica saves as much as it costs, no other way of keeping
    the promise over a day is cheaper. It begins at one replica for each allowance of a replica's work, the order that
    clairvoyant fleets pay, and is an integral of what was missed, bounded so that neither a calm week nor a burst winds it up.
    """

    requests: float = 0.0
    misses: float = 0.0
    dear: float = 1.0
    """How many times the first guess a miss is worth."""

    def seen(self, requests: float, misses: float, seconds: float, allowed: float) -> "Misses":
        """After one more slot; `allowed` is the share of requests that may miss."""
        kept = 0.5 ** (seconds / _HALF_LIFE)
        total = kept * self.requests + requests
        missed = kept * self.misses + min(misses, _ONE_SLOT * allowed * requests)
        burn = (missed + allowed * _LITTLE) / (allowed * (total + _LITTLE))
        unused = 1 - burn if burn < 1 else _SOONER * max(-3.0, 1 - burn)
        turned = self.dear * math.exp(-_GAIN * seconds * unused)
        return Misses(total, missed, min(_DEAREST, max(_CHEAPEST, turned)))

    def price(self, allowed: float) -> float:
        """Replicas that may be kept to prevent the misses of one replica's full work, for a promise that allows this share."""
        return max(_LEAST, self.dear / allowed)
