"""Turns two metrics pages of a pod into the sample to learn from; names the objectives that a page cannot resolve."""

from dataclasses import dataclass
from typing import Final

from tierwright.api.latency_buckets import is_told
from tierwright.capacity.samples import Judged, PodSample
from tierwright.observe.histogram import Histogram, Totals
from tierwright.observe.metrics import MetricsPage
from tierwright.observe.page_delta import PageDelta, between

_NEAR: Final = 0.02
"""A bound that is nearer to the objective than this share of it resolves it."""


@dataclass(frozen=True, slots=True)
class LatencyObjectives:
    """Objectives in seconds; None: not promised."""

    first_token: float | None
    per_token: float | None


def sample_of(
    before: MetricsPage, after: MetricsPage, *, seconds: float, age: float, objectives: LatencyObjectives
) -> PodSample:
    """The sample of the interval between two pages of one pod; `age` is seconds since ready at its end."""
    return sample_from(between(before, after), after, seconds=seconds, age=age, objectives=objectives)


def sample_from(
    delta: PageDelta, after: MetricsPage, *, seconds: float, age: float, objectives: LatencyObjectives
) -> PodSample:
    """The same for two pages that were compared already; `after` is the later one."""
    return PodSample(
        seconds=seconds,
        age=age,
        arrivals=delta.arrivals,
        running=after.running,
        waiting=after.waiting,
        prefilled=None if delta.first_token is None else delta.first_token.count,
        prompt_tokens=delta.prompt_tokens,
        cached_tokens=delta.cached_tokens,
        output_tokens=delta.output_tokens,
        steps=None if delta.steps is None else delta.steps.count,
        token_seconds=_mean(delta.inter_token),
        context_tokens=None
        if after.kv_tokens is None or after.kv_usage is None
        else after.kv_tokens * after.kv_usage,
        first_token=_judged(delta.first_token, objectives.first_token),
        per_token=_judged(delta.per_output_token, objectives.per_token),
    )


def unresolved(page: MetricsPage, objectives: LatencyObjectives) -> tuple[str, ...]:
    """A sentence for each objective whose misses must be interpolated, with the bounds next to it."""
    sentences = []
    for name, histogram, limit in (
        ("timeToFirstToken", page.first_token, objectives.first_token),
        ("timePerOutputToken", page.per_output_token, objectives.per_token),
    ):
        if histogram is None or limit is None:
            continue
        low, high = histogram.around(limit)
        if min(limit - low, high - limit) > _NEAR * limit and not is_told(low, high, limit):
            sentences.append(
                f"objectives.{name}: the engine counts latencies only at {low:g} s and {high:g} s, so misses of "
                f"{limit:g} s are interpolated; choose one of the two or set the engine's histogram buckets"
            )
    return tuple(sentences)


def _mean(totals: Totals | None) -> float | None:
    return totals.sum / totals.count if totals is not None and totals.count > 0 else None


def _judged(histogram: Histogram | None, limit: float | None) -> Judged | None:
    if histogram is None or limit is None:
        return None
    return Judged(histogram.count, histogram.above(limit))
