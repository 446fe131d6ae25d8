"""Turns what was read of a tier's pods into samples: new ones, those that still stand, and pods that do not tell.

Each sample is told once, however often its page is read: a source that is read more often than it reads the pods (a
Prometheus server) would else count its requests again and again, and one that reads pods at different times would never
tell of all of them at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierwright.capacity.samples import Judged, PodSample
from tierwright.control.observation import LivePod
from tierwright.control.pod_samples import LatencyObjectives, sample_from, unresolved
from tierwright.observe.metrics import MetricsPage
from tierwright.observe.page_delta import PageDelta, between
from tierwright.observe.readings import Scraped

STANDS_FOR: Final = 150.0
"""Seconds, from when it was taken, for which a sample stands: a server that reads pods each minute may miss one reading."""
_LONGEST: Final = 2 * STANDS_FOR
"""Seconds between two pages beyond which they are not compared: the mean of so long a time tells nothing of now."""
_UNSTEADY: Final = 2.5
"""Ticks beyond which the time between two samples is the source's own, and not a reading that was missed."""


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is carried of one pod from tick to tick."""

    page: Scraped
    """The newest that was read of it."""
    told: bool = True
    """Whether the last reading gave a page."""
    sample: PodSample | None = None
    """Of the interval that ended with the page; None: there was no page to compare it with."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the pages tell, compared with those before."""

    records: Mapping[str, PodRecord]
    samples: Mapping[str, PodSample]
    """By uid, for the time since the tick before: new ones, and those that stand."""
    fresh: tuple[PodSample, ...]
    """New ones, for the whole of their own interval: what is counted once."""
    deltas: tuple[PageDelta, ...]
    silent: tuple[str, ...]
    """A sentence for each ready pod that does not tell what it has to do."""
    warnings: tuple[str, ...]
    newest_at: float | None
    """When the newest sample was taken; seconds since 1970."""
    interval: float | None
    """Longest time between two samples of a pod."""

    def lag(self, usual: float, tick: float) -> float:
        """How old in seconds a sample may be when it is decided on: as usual, unless the source itself reads more seldom."""
        longer = self.interval is not None and self.interval > _UNSTEADY * tick
        return max(usual, self.interval or 0.0) if longer else usual


def measure(
    before: Mapping[str, PodRecord],
    pods: Sequence[LivePod],
    scraped: Mapping[str, Scraped],
    objectives: LatencyObjectives,
    now: float,
    *,
    elapsed: float | None = None,
    grace: float = 0.0,
) -> Measured:
    """The samples of the ready pods; a pod of which no page was read before gets its first one later.

    `elapsed` are the seconds since the tick before, None where there was none. A pod that is ready for less than `grace`
    seconds is not told of when it is silent.
    """
    records: dict[str, PodRecord] = {}
    samples: dict[str, PodSample] = {}
    fresh: list[PodSample] = []
    deltas: list[PageDelta] = []
    silent: list[str] = []
    warnings: dict[str, None] = {}
    newest: list[float] = []
    for pod in pods:
        read = scraped.get(pod.uid)
        if pod.ready_since is None or read is None:
            continue
        if (lack := _lack(read)) and now - pod.ready_since >= grace:
            silent.append(f"pod {pod.name}: {lack}")
        last = before.get(pod.uid)
        if read.page is None:
            if last is not None:
                records[pod.uid] = replace(last, told=False, sample=None)
            continue
        if last is not None and read.at <= last.page.at:
            record = replace(last, page=replace(last.page, age=read.age), told=True)
        else:
            record = PodRecord(read)
            delta = _delta(last, read)
            if delta is not None and last is not None:
                record = replace(
                    record,
                    sample=sample_from(
                        delta,
                        read.page,
                        seconds=read.at - last.page.at,
                        age=max(0.0, now - read.age - pod.ready_since),
                        objectives=objectives,
                    ),
                )
                deltas.append(delta)
                fresh.extend(filter(None, (record.sample,)))
        records[pod.uid] = record
        if record.sample is not None and read.age <= STANDS_FOR:
            warnings |= dict.fromkeys(unresolved(read.page, objectives))
            newest.append(now - read.age)
            samples[pod.uid] = told_for(record.sample, elapsed)
    return Measured(
        records,
        samples,
        tuple(fresh),
        tuple(deltas),
        tuple(silent),
        tuple(warnings),
        max(newest, default=None),
        max((records[uid].sample.seconds for uid in samples), default=None),  # type: ignore[union-attr]
    )


def told_for(sample: PodSample, seconds: float | None) -> PodSample:
    """The part of the sample that these seconds stand for; the whole where they are more, or not known."""
    if seconds is None or not 0 < seconds < sample.seconds:
        return sample
    share = seconds / sample.seconds
    return replace(
        sample,
        seconds=seconds,
        arrivals=_part(sample.arrivals, share),
        prefilled=_part(sample.prefilled, share),
        prompt_tokens=_part(sample.prompt_tokens, share),
        cached_tokens=_part(sample.cached_tokens, share),
        output_tokens=_part(sample.output_tokens, share),
        steps=_part(sample.steps, share),
        first_token=_judged_part(sample.first_token, share),
        per_token=_judged_part(sample.per_token, share),
    )


def _part(count: float | None, share: float) -> float | None:
    return None if count is None else count * share


def _judged_part(judged: Judged | None, share: float) -> Judged | None:
    return None if judged is None else Judged(judged.requests * share, judged.misses * share)


def _delta(last: PodRecord | None, read: Scraped) -> PageDelta | None:
    if last is None or last.page.page is None or read.page is None or read.at - last.page.at > _LONGEST:
        return None
    return between(last.page.page, read.page)


def _lack(read: Scraped) -> str:
    """What keeps a reading from telling the pod's load; empty when nothing does."""
    if read.page is None:
        return read.words or "no page"
    if read.age > STANDS_FOR:
        return f"its newest figures are more than {STANDS_FOR:.0f} s old: the Prometheus server reads the pod too seldom"
    missing = [name for name in ("running", "waiting", "finished") if _of(read.page, name) is None]
    return f"its page does not tell {', '.join(missing)}" if missing else ""


def _of(page: MetricsPage, name: str) -> float | None:
    value: float | None = getattr(page, name)
    return value
