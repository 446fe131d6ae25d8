"""Decides which settings of a tier are worth a replay, from those that were replayed, and which one is the cheapest that keeps the promise.

Static sizes are bisected. Of the autoscaler's settings one field is varied at a time, from the tier's own: minReplicas,
then the attainment that is aimed at, then the stabilization; each from the best that was found before.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from tierwright.planning.case import Case, Figures, Scaled, Setting, Static, as_written
from tierwright.planning.demand import USUAL_LOAD, Demand

Tried = Mapping[Setting, Figures]

_MOST_STATIC = 1000
_HOLDS = (300.0, 1200.0, 3600.0)


def keeps(figures: Figures, case: Case) -> bool:
    """Whether the promise was kept."""
    return figures.attainment >= case.promise


def statics_to_try(case: Case, demand: Demand, tried: Tried, width: int) -> tuple[Static, ...]:
    """Up to `width` static sizes that narrow down the fewest replicas that keep the promise; none when it is known.

    More replicas are taken to miss no more. Where the promise is out of reach of any number nothing is searched.
    """
    sizes = {
        setting.replicas: keeps(each, case) for setting, each in tried.items() if isinstance(setting, Static)
    }
    if not sizes:
        return (Static(max(1, min(_MOST_STATIC, ceil(demand.replicas / USUAL_LOAD)))),)
    enough = min((size for size, kept in sizes.items() if kept), default=None)
    few = max(
        (size for size, kept in sizes.items() if not kept and (enough is None or size < enough)), default=0
    )
    if enough is None:
        if demand.unattainable_share > 1 - case.promise or few >= _MOST_STATIC:
            return ()
        return tuple(Static(size) for size in _beyond(few, width))
    gap = enough - few - 1
    parts = min(width, gap)
    return tuple(Static(few + (place + 1) * (gap + 1) // (parts + 1)) for place in range(parts))


def _beyond(few: int, width: int) -> list[int]:
    return sorted({min(_MOST_STATIC, ceil(few * 1.5 ** (place + 1))) for place in range(width)})


def scaled_to_try(case: Case, tried: Tried) -> tuple[Scaled, ...]:
    """Settings of the autoscaler that are not tried yet, of the first field that is not exhausted; needs the statics to be known."""
    best = as_written(case)
    for stage in (_minimums, _attainments, _holds):
        candidates = stage(case, tried, best)
        missing = tuple(each for each in candidates if each not in tried)
        if missing:
            return missing
        best = _best(case, tried, candidates, best)
    return ()


def _minimums(case: Case, tried: Tried, best: Scaled) -> tuple[Scaled, ...]:
    static = best_static(case, tried)
    most = case.settings.maximum if static is None else static.replicas
    values = {best.minimum, 1, ceil(most / 2), most} if static is not None else {best.minimum, 1}
    return tuple(replace(best, minimum=value) for value in sorted(values) if value <= case.settings.maximum)


def _attainments(case: Case, tried: Tried, best: Scaled) -> tuple[Scaled, ...]:  # noqa: ARG001 - a stage
    missed = 1 - case.promise
    return (best, *(replace(best, attainment=round(1 - missed / part, 5)) for part in (2, 4)))


def _holds(case: Case, tried: Tried, best: Scaled) -> tuple[Scaled, ...]:  # noqa: ARG001 - a stage
    return (best, *(replace(best, hold=hold) for hold in _HOLDS if hold != best.hold))


def _best(case: Case, tried: Tried, candidates: tuple[Scaled, ...], before: Scaled) -> Scaled:
    """The cheapest that keeps the promise, else the one that comes nearest; nothing is changed for no gain."""
    kept = [each for each in candidates if keeps(tried[each], case)]
    if kept:
        return min(kept, key=lambda each: (tried[each].replica_hours, each != before))
    return max(candidates, key=lambda each: tried[each].attainment)


def best_static(case: Case, tried: Tried) -> Static | None:
    """The fewest replicas that keep the promise all the time."""
    kept = [s for s, each in tried.items() if isinstance(s, Static) and keeps(each, case)]
    return min(kept, key=lambda each: each.replicas, default=None)


def cheapest(case: Case, tried: Tried) -> Setting | None:
    """The setting with the fewest replica-hours that keeps the promise; a static one where it costs no more."""
    kept = [setting for setting, each in tried.items() if keeps(each, case)]
    return min(kept, key=lambda each: (tried[each].replica_hours, not isinstance(each, Static)), default=None)
