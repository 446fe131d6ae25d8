"""A latency histogram as a metrics page tells it, and how many of its requests were slower than an objective."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Totals:
    """Sum and number of what was observed."""

    sum: float
    count: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts by upper bound; the bounds ascend and the last is infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def count(self) -> float:
        """Observations in all."""
        return self.counts[-1]

    def above(self, limit: float) -> float:
        """How many observations were above the limit: exact at a bound, linear within a bucket.

        Within the first bucket it is linear from zero. Above the last finite bound nothing is known of the bucket, and all
        of it counts.
        """
        place = bisect_left(self.bounds, limit)
        upper = self.bounds[place]
        if upper == limit or math.isinf(upper):
            at = self.counts[place] if upper == limit else self._before(place)
            return self.count - at
        lower = self.bounds[place - 1] if place else min(0.0, limit)
        share = (limit - lower) / (upper - lower)
        within = self.counts[place] - self._before(place)
        return self.count - self._before(place) - share * within

    def around(self, limit: float) -> tuple[float, float]:
        """The bounds next to the limit, both equal to it where the histogram resolves it; at the ends 0 and infinity."""
        place = bisect_left(self.bounds, limit)
        if self.bounds[place] == limit:
            return limit, limit
        return (self.bounds[place - 1] if place else 0.0), self.bounds[place]

    def quantile(self, share: float) -> float | None:
        """The value that the share of observations does not exceed; None without observations.

        Linear within a bucket; the last finite bound stands for everything above it.
        """
        if not self.count:
            return None
        rank = share * self.count
        place = min(bisect_left(self.counts, rank), len(self.bounds) - 1)
        if math.isinf(self.bounds[place]):
            return self.bounds[place - 1] if place else None
        lower = self.bounds[place - 1] if place else 0.0
        within = self.counts[place] - self._before(place)
        part = (rank - self._before(place)) / within if within else 1.0
        return lower + part * (self.bounds[place] - lower)

    def _before(self, place: int) -> float:
        return self.counts[place - 1] if place else 0.0


def added(series: Iterable[Sequence[tuple[float, float]]], totals: Totals) -> Histogram | None:
    """The sum of the series of one pod, each as (upper bound, cumulative count).

    None when they cannot belong together: other bounds, counts that fall, or more observations than were counted.
    A missing infinite bucket is the count of the totals.
    """
    bounds: tuple[float, ...] | None = None
    counts: list[float] = []
    for buckets in series:
        ordered = sorted(buckets)
        own = tuple(bound for bound, _ in ordered)
        if len(set(own)) != len(own) or any(math.isnan(bound) for bound in own):
            return None
        if bounds is None:
            bounds, counts = own, [0.0] * len(own)
        if own != bounds:
            return None
        counts = [count + more for count, (_, more) in zip(counts, ordered, strict=True)]
    if not bounds:
        return None
    if not math.isinf(bounds[-1]):
        bounds, counts = (*bounds, math.inf), [*counts, totals.count]
    falling = any(later < earlier for earlier, later in pairwise(counts))
    if falling or counts[0] < 0 or counts[-1] != totals.count:
        return None
    return Histogram(bounds, tuple(counts), totals.sum)
