"""What one pod did between two of its metrics pages; a counter that fell has started again from zero."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tierwright.observe.histogram import Histogram, Totals
from tierwright.observe.metrics import MetricsPage

_SAME_PROCESS = 1.0
"""Seconds by which the start of one process may differ between two pages; a restart takes longer."""


@dataclass(frozen=True, slots=True)
class PageDelta:
    """What happened between two pages of one pod. None: one of the pages does not tell."""

    restarted: bool
    """The counters began again; what happened since then is all that is known."""
    arrivals: float | None
    """Requests that came: those that ended or were refused, and the change of those that run or wait."""
    finished: float | None
    prompt_tokens: float | None
    cached_tokens: float | None
    output_tokens: float | None
    inter_token: Totals | None
    steps: Totals | None
    first_token: Histogram | None
    per_output_token: Histogram | None


def between(before: MetricsPage, after: MetricsPage) -> PageDelta:
    """Compare two pages of the same pod, the older first."""
    restarted = _restarted(before, after)

    def grown(read: Callable[[MetricsPage], float | None]) -> float | None:
        new, old = read(after), 0.0 if restarted else read(before)
        return None if new is None or old is None else new - old

    finished = grown(lambda page: page.finished)
    present = grown(_present)
    refused = grown(lambda page: page.rejected) or 0.0
    return PageDelta(
        restarted=restarted,
        # A page is not taken at one instant: a request may leave the gauge before it is counted as finished.
        arrivals=None if finished is None or present is None else max(0.0, finished + present + refused),
        finished=finished,
        prompt_tokens=grown(lambda page: page.prompt_tokens),
        cached_tokens=grown(lambda page: page.cached_tokens),
        output_tokens=grown(lambda page: page.output_tokens),
        inter_token=_totals(before.inter_token, after.inter_token, restarted),
        steps=_totals(before.steps, after.steps, restarted),
        first_token=_histogram(before.first_token, after.first_token, restarted),
        per_output_token=_histogram(before.per_output_token, after.per_output_token, restarted),
    )


def _present(page: MetricsPage) -> float | None:
    return None if page.running is None or page.waiting is None else page.running + page.waiting


def _restarted(before: MetricsPage, after: MetricsPage) -> bool:
    if before.process_start is not None and after.process_start is not None:
        moved = abs(after.process_start - before.process_start)
        if moved > _SAME_PROCESS:
            return True
    return any(
        old is not None and new is not None and new < old
        for old, new in zip(_counters(before), _counters(after), strict=True)
    )


def _counters(page: MetricsPage) -> tuple[float | None, ...]:
    """Every figure that only grows while a process lives."""
    counted = (page.inter_token, page.steps, page.first_token, page.per_output_token)
    return (
        page.finished,
        page.prompt_tokens,
        page.cached_tokens,
        page.output_tokens,
        *(None if each is None else each.count for each in counted),
    )


def _totals(before: Totals | None, after: Totals | None, restarted: bool) -> Totals | None:
    if after is None or restarted:
        return after
    return None if before is None else Totals(max(0.0, after.sum - before.sum), after.count - before.count)


def _histogram(before: Histogram | None, after: Histogram | None, restarted: bool) -> Histogram | None:
    if after is None or restarted:
        return after
    if before is None or before.bounds != after.bounds:
        return None
    counts = tuple(new - old for old, new in zip(before.counts, after.counts, strict=True))
    falling = counts[0] < 0 or any(later < sooner for sooner, later in pairwise(counts))
    return None if falling else Histogram(after.bounds, counts, max(0.0, after.sum - before.sum))
