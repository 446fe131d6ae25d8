"""Steers how much is risked at each moment so that the promise holds over the day, no better and no worse than it has to."""

import math
from dataclasses import dataclass
from typing import Final

_HALF_LIFE: Final = 12 * 3600.0
_GAIN: Final = 2.0 / 86_400
"""Growth of the ease per second for each allowance that is unused: a day without misses multiplies it by e²."""
_SOONER: Final = 4.0
"""How much faster a promise that is broken tightens than one that is kept eases."""
_TIGHTEST: Final = 0.25
_LOOSEST: Final = 4.0
_LITTLE: Final = 1000.0
"""Requests below which the share of misses means little."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Requests and misses of about the last day, fading, and what follows from them.

    A plan leaves slack: replicas are whole, stay for the hold, and the load is mostly below what was planned for. `ease`
    makes up for it: planned misses may be that many times the allowance. It is an integral of what was missed, bounded so
    that a calm week cannot wind it up.
    """

    requests: float = 0.0
    misses: float = 0.0
    ease: float = 1.0

    def seen(self, requests: float, misses: float, seconds: float, allowed: float) -> "Misses":
        """After one more slot; `allowed` is the share of requests that may miss."""
        kept = 0.5 ** (seconds / _HALF_LIFE)
        total = kept * self.requests + requests
        missed = kept * self.misses + misses
        burn = (missed + allowed * _LITTLE) / (allowed * (total + _LITTLE))
        unused = 1 - burn if burn < 1 else _SOONER * max(-3.0, 1 - burn)
        turned = self.ease * math.exp(_GAIN * seconds * unused)
        return Misses(
            total,
            missed,
            min(_LOOSEST, max(_TIGHTEST, turned)),
        )

    def allowed(self, allowed: float) -> float:
        """The share of requests that a plan may miss now."""
        return allowed * self.ease
