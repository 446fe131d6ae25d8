"""Sums one run up over time: replicas, requests and attainment in intervals of equal length."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tierwright.planning.case import Figures
from tierwright.planning.demand import Demand


@dataclass(frozen=True, slots=True)
class Interval:
    """One stretch of the trace."""

    begin: float
    rate: float
    """Requests per second."""
    replicas: float
    """Mean, those that start or drain included."""
    ready: float
    attainment: float | None
    """Share of the requests that arrived in it and met all objectives; None: none arrived, or they are not scored."""


def intervals(figures: Figures, demand: Demand, tick: float, length: float) -> tuple[Interval, ...]:
    """The run in intervals of `length` seconds, a multiple of 60; the last may reach beyond the last request."""
    end = demand.last
    count = max(1, ceil(end / length))
    billed, ready = [0.0] * count, [0.0] * count
    for begin, stop, replicas, serving in _stretches(figures, tick, count * length):
        place = int(begin // length)
        while begin < stop and place < count:
            part = min(stop, (place + 1) * length) - begin
            billed[place] += replicas * part
            ready[place] += serving * part
            begin, place = begin + part, place + 1
    came, seen, missed = [0] * count, [0] * count, [0] * count
    for minute, requests in demand.by_minute.items():
        came[min(count - 1, int(minute * 60 // length))] += requests
    for minute, requests, misses in figures.minutes:
        place = min(count - 1, int(minute * 60 // length))
        seen[place] += requests
        missed[place] += misses
    return tuple(
        Interval(
            place * length,
            came[place] / length,
            billed[place] / length,
            ready[place] / length,
            1 - missed[place] / seen[place] if seen[place] else None,
        )
        for place in range(count)
    )


def _stretches(figures: Figures, tick: float, end: float) -> Iterator[tuple[float, float, int, int]]:
    """Begin, end, billed and ready replicas between two changes; a tick tells of the time before it."""
    changes = figures.changes
    for place, change in enumerate(changes):
        later = changes[place + 1].at - tick if place + 1 < len(changes) else end
        yield change.at - tick, later, change.billed, change.ready
