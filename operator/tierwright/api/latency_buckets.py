"""Decides at which latencies the engines count, and whether an objective is told from such counts well enough.

Fixed, and the same for every tier: bounds that followed the objectives would replace every pod when one is changed. Between
50 ms and 20 s (first token) and between 5 and 200 ms (output token) no two neighbours are further apart than a fifth.
They stand in pods' arguments, so a change of one bound replaces every pod at the next upgrade.
"""

from collections.abc import Sequence
from typing import Final

# fmt: off
TIME_TO_FIRST_TOKEN_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.055, 0.06, 0.07, 0.075, 0.08, 0.09, 0.1, 0.11, 0.12,
    0.13, 0.14, 0.15, 0.16, 0.18, 0.2, 0.22, 0.25, 0.28, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.75,
    0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5,
    6.0, 7.0, 7.5, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0, 30.0, 40.0, 60.0, 80.0, 160.0,
    640.0, 2560.0,
)
TIME_PER_OUTPUT_TOKEN_BUCKETS: Final = (
    0.001, 0.002, 0.003, 0.004, 0.005, 0.0055, 0.006, 0.007, 0.0075, 0.008, 0.009, 0.01, 0.011, 0.012,
    0.013, 0.014, 0.015, 0.016, 0.018, 0.02, 0.022, 0.025, 0.028, 0.03, 0.035, 0.04, 0.045, 0.05, 0.055,
    0.06, 0.07, 0.075, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.18, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
# fmt: on
NARROW: Final = 0.2
"""Bounds around an objective that are no further apart than this share of it tell its misses well enough: what is interpolated
between them is a share of the few requests in between."""


def neighbours(bounds: Sequence[float], seconds: float) -> tuple[float | None, float | None]:
    """The bounds next to a latency, below and above; both are the latency itself where it is one; None beyond the ends."""
    if seconds in bounds:
        return seconds, seconds
    below = max((bound for bound in bounds if bound < seconds), default=None)
    above = min((bound for bound in bounds if bound > seconds), default=None)
    return below, above


def is_told(low: float | None, high: float | None, seconds: float) -> bool:
    """Whether misses of a latency can be told between the bounds next to it."""
    return low is not None and high is not None and high - low <= NARROW * seconds
