"""Latency and misses of the last hour of one tier by the minute, and the few figures that a status shows of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from tierwright.observe.histogram import Histogram

_MINUTE: Final = 60.0
LATENCY_SECONDS: Final = 300.0
"""How far percentiles look back."""
ATTAINMENT_SECONDS: Final = 3600.0
"""How far the share of requests that met the objectives looks back."""
FEWEST_REQUESTS: Final = 20.0
"""Requests from which a share is told."""


@dataclass(frozen=True, slots=True)
class Minute:
    """What was seen within one minute."""

    start: float
    first_token: Histogram | None = None
    per_token: Histogram | None = None
    requests: float = 0.0
    misses: float = 0.0


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class LatencyWindow:
    """The minutes of the last hour, oldest first."""

    minutes: tuple[Minute, ...] = ()

    def seen(
        self,
        at: float,
        *,
        first_token: Iterable[Histogram],
        per_token: Iterable[Histogram],
        requests: float,
        misses: float,
    ) -> "LatencyWindow":
        """With one more tick, whose requests came until `at`; each histogram is what one pod counted since the last tick."""
        start = at - at % _MINUTE
        kept = [each for each in self.minutes if each.start > at - ATTAINMENT_SECONDS]
        last = kept.pop() if kept and kept[-1].start == start else Minute(start)
        grown = replace(
            last,
            first_token=together(chain(_known(last.first_token), first_token)),
            per_token=together(chain(_known(last.per_token), per_token)),
            requests=last.requests + requests,
            misses=last.misses + misses,
        )
        return LatencyWindow((*kept, grown))

    def first_token(self, at: float) -> Percentiles | None:
        """Of the last five minutes; None without requests."""
        return _percentiles(each.first_token for each in self._recent(at))

    def per_token(self, at: float) -> Percentiles | None:
        """Of the last five minutes; None without requests."""
        return _percentiles(each.per_token for each in self._recent(at))

    def attained(self) -> float | None:
        """Share of the last hour's requests that met all objectives; None for fewer than twenty."""
        requests = sum(each.requests for each in self.minutes)
        if requests < FEWEST_REQUESTS:
            return None
        return max(0.0, 1 - sum(each.misses for each in self.minutes) / requests)

    def _recent(self, at: float) -> Sequence[Minute]:
        return [each for each in self.minutes if each.start > at - LATENCY_SECONDS - _MINUTE]


def together(histograms: Iterable[Histogram]) -> Histogram | None:
    """The sum; where bounds differ, as amid an upgrade, those of the last one count and the others are left out."""
    found = list(histograms)
    if not found:
        return None
    bounds = found[-1].bounds
    alike = [each for each in found if each.bounds == bounds]
    counts = tuple(sum(column) for column in zip(*(each.counts for each in alike), strict=True))
    return Histogram(bounds, counts, sum(each.sum for each in alike))


def _known(histogram: Histogram | None) -> tuple[Histogram, ...]:
    return () if histogram is None else (histogram,)


def _percentiles(histograms: Iterable[Histogram | None]) -> Percentiles | None:
    whole = together(each for each in histograms if each is not None)
    if whole is None:
        return None
    found = [whole.quantile(share) for share in (0.5, 0.95, 0.99)]
    p50, p95, p99 = found
    if p50 is None or p95 is None or p99 is None:
        return None
    return Percentiles(p50, p95, p99)
