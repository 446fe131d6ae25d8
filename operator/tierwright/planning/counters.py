"""What the engines of one fleet have counted since the start, as an engine's metrics page counts it: totals and histograms."""

from bisect import bisect_left
from dataclasses import dataclass, field
from math import inf

TTFT_BOUNDS = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    1.5,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
)
TPOT_BOUNDS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0)


@dataclass(slots=True)
class Counters:
    """Counters since the start.

    Misses are counted at the objectives themselves: the operator starts engines with a bucket's bound there. The bounds of
    the histograms hold the objectives of the benchmark.
    """

    first_limit: float = inf
    per_token_limit: float = inf
    """The objectives in seconds."""
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    finished: int = 0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    inter_token_seconds: float = 0.0
    inter_tokens: float = 0.0
    steps: float = 0.0
    first_token: list[int] = field(default_factory=lambda: [0] * (len(TTFT_BOUNDS) + 1))
    first_token_seconds: float = 0.0
    first_tokens: int = 0
    first_missed: int = 0
    per_token: list[int] = field(default_factory=lambda: [0] * (len(TPOT_BOUNDS) + 1))
    per_token_seconds: float = 0.0
    per_tokens: int = 0
    per_token_missed: int = 0

    def first(self, seconds: float) -> None:
        """A first token came after so many seconds."""
        self.first_token[bisect_left(TTFT_BOUNDS, seconds)] += 1
        self.first_token_seconds += seconds
        self.first_tokens += 1
        self.first_missed += seconds > self.first_limit

    def ended(self, per_token: float | None) -> None:
        """A request ended; None: it had one token."""
        self.finished += 1
        if per_token is not None:
            self.per_token[bisect_left(TPOT_BOUNDS, per_token)] += 1
            self.per_token_seconds += per_token
            self.per_tokens += 1
            self.per_token_missed += per_token > self.per_token_limit
