"""Steers how much is risked at each moment so that the promise holds over the day, no better and no worse than it has to."""

import math
from dataclasses import dataclass
from typing import Final

_HALF_LIFE: Final = 12 * 3600.0
_GAIN: Final = 2.0 / 86_400
"""Growth of the ease per second for each allowance that is unused: a day without misses multiplies it by e²."""
_SOONER: Final = 4.0
"""How much faster a promise that is broken tightens than one that is kept eases."""
_TIGHTEST: Final = 0.5
_LOOSEST: Final = 6.0
_FIRST: Final = 2.0
"""Slack that plans are known to leave before any was measured."""
_LITTLE: Final = 1000.0
"""Requests below which the share of misses means little."""
_ONE_SLOT: Final = 5.0
"""Allowances that one slot can use up. A burst that nothing could have held costs what it costs; to be three times as careful
for the day after buys nothing back."""
_TILT: Final = 0.5
"""How misses move from busy moments to quiet ones, where a replica saves fewer: the allowance goes with the rate to this power."""
_STEEPEST: Final = 3.0
_MOST: Final = 0.5
"""Share of misses beyond which no plan goes, however loose the promise."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Requests and misses of about the last day, fading, and what follows from them.

    A plan leaves slack: replicas are whole, stay for the hold, and the load is mostly below what was planned for. `ease`
    makes up for it: planned misses may be that many times the allowance. It is an integral of what was missed, bounded so
    that a calm week cannot wind it up.
    """

    requests: float = 0.0
    misses: float = 0.0
    seconds: float = 0.0
    ease: float = _FIRST

    def seen(self, requests: float, misses: float, seconds: float, allowed: float) -> "Misses":
        """After one more slot; `allowed` is the share of requests that may miss."""
        kept = 0.5 ** (seconds / _HALF_LIFE)
        total = kept * self.requests + requests
        missed = kept * self.misses + min(misses, _ONE_SLOT * allowed * requests)
        burn = (missed + allowed * _LITTLE) / (allowed * (total + _LITTLE))
        unused = 1 - burn if burn < 1 else _SOONER * max(-3.0, 1 - burn)
        turned = self.ease * math.exp(_GAIN * seconds * unused)
        return Misses(total, missed, kept * self.seconds + seconds, min(_LOOSEST, max(_TIGHTEST, turned)))

    def allowed(self, allowed: float, rate: float) -> float:
        """The share of requests that a plan may miss at this rate of requests per second; more where they are few.

        With misses that fall with a power of the replicas, the same saving per replica everywhere costs least in a day; that share
        goes with replicas over rate, about the root of one over the rate.
        """
        usual = self.requests / self.seconds if self.seconds else 0.0
        tilt = (usual / rate) ** _TILT if rate > 0 and usual > 0 else 1.0
        return min(_MOST, allowed * self.ease * min(_STEEPEST, max(1 / _STEEPEST, tilt)))
