"""What ``tierwright plan`` found, as a table for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from tierwright.cli.plan.tiers import Planned
from tierwright.cli.plan.trace import Part, Trace
from tierwright.control.pool_budget import Pool
from tierwright.planning.case import Case, Figures, Setting, Static, as_written
from tierwright.planning.over_time import Interval, intervals
from tierwright.planning.search import best_static, cheapest, keeps
from tierwright.planning.together import Most, most_together

MODEL: Final = (
    "A model, no measurement: linear step times, no prompt cache, a KV cache that never fills, requests in turn to the "
    "ready replicas, each tier with all the devices it asks for."
)
_ROWS: Final = 24
"""Rows of the table over time."""


@dataclass(frozen=True)
class Found:
    """One tier, its part of the trace, and what came of each setting."""

    planned: Planned
    part: Part
    tried: Mapping[Setting, Figures]

    @property
    def case(self) -> Case:
        """The tier as it is planned for."""
        return self.planned.case

    @property
    def hours(self) -> str:
        """What is counted in hours."""
        return "replica-hours" if self.planned.accelerator == "cpu" else "accelerator-hours"

    @property
    def cheapest(self) -> Setting | None:
        """The cheapest setting that keeps the promise."""
        return cheapest(self.case, self.tried)

    @property
    def shown(self) -> Setting:
        """The setting that is shown over time: the cheapest, else the tier's own."""
        return self.cheapest or as_written(self.case)

    def over_time(self, setting: Setting, count: int = _ROWS) -> tuple[Interval, ...]:
        """The setting's replicas, requests and attainment over time, in about so many intervals."""
        demand = self.part.demand
        minutes = max(1, ceil(demand.last / 60 / count))
        return intervals(self.tried[setting], demand, self.case.settings.tick, 60.0 * minutes)


def settings_in_order(found: Found) -> list[Setting]:
    """Static sizes first, then the tier's own setting, then the others by cost."""
    written = as_written(found.case)
    return sorted(
        found.tried,
        key=lambda each: (
            (0, float(each.replicas))
            if isinstance(each, Static)
            else (1, 0.0)
            if each == written
            else (2, found.tried[each].replica_hours)
        ),
    )


def label(setting: Setting, case: Case) -> str:
    """A setting in the words of a tier file."""
    if isinstance(setting, Static):
        return f"static {setting.replicas}"
    own = as_written(case)
    if setting == own:
        return "as written"
    changed = [
        f"{name} {value}"
        for name, value, same in (
            ("minReplicas", str(setting.minimum), setting.minimum == own.minimum),
            ("attainment", f"{setting.attainment:g}", setting.attainment == own.attainment),
            ("stabilization", duration(setting.hold), setting.hold == own.hold),
        )
        if not same
    ]
    return ", ".join(changed)


def duration(seconds: float) -> str:
    """A duration as tier files write it, three digits at most."""
    if seconds < 1:
        return f"{seconds * 1000:.3g}ms"
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.6g}s"


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.3g} hours" if seconds >= 2 * 3600 else f"{seconds / 60:.3g} minutes"


def percent(share: float) -> str:
    """A share as tier files' readers say it."""
    return f"{100 * share:.6g}%"


def table(trace: Trace, name: str, found: Sequence[Found]) -> str:
    """Everything for people."""
    lines = [MODEL, "", f"Trace {name}: {trace.requests:,} requests in {_span(trace.seconds)}"]
    for each in found:
        lines += ["", *_tier(each)]
    if len(found) > 1:
        lines += ["", *_together(found)]
    return "\n".join(lines) + "\n"


def _tier(found: Found) -> Iterator[str]:
    case, demand = found.case, found.part.demand
    own = as_written(case)
    yield f"{case.name} ({found.planned.accelerator}): {_promise(case)}"
    yield (
        f"  {demand.requests:,} requests, {demand.requests / max(1.0, demand.last):.3g} a second, busiest minute "
        f"{demand.busiest / 60:.3g}; {demand.prompt_tokens / demand.requests:,.0f} prompt and "
        f"{demand.output_tokens / demand.requests:,.0f} output tokens each"
    )
    yield (
        f"  as written: minReplicas {own.minimum}, maxReplicas {case.settings.maximum}, attainment {own.attainment:g}, "
        f"stabilization {duration(own.hold)}, coldStart {duration(case.settings.cold_start)}"
    )
    yield f"  step time: {found.planned.step_time}: {_step_time(case)}"
    yield from (f"  assumed: {words}" for words in found.planned.assumed)
    yield from (f"  {words}" for words in remarks(found))
    yield ""
    yield from _rows(found)
    yield ""
    yield from _over_time(found)


def _over_time(found: Found) -> Iterator[str]:
    """The cheapest setting and the tier's own, side by side."""
    settings = list(dict.fromkeys((found.shown, as_written(found.case))))
    yield f"  {'over time':>18}" + "".join(f"  {label(each, found.case)[:38]:>20}" for each in settings)
    yield f"  {'from':>7} {'requests/s':>10}" + f"  {'replicas':>10} {'attained':>9}" * len(settings)
    for parts in zip(*(found.over_time(each) for each in settings), strict=True):
        line = f"  {_clock(parts[0].begin):>7} {parts[0].rate:>10.3g}"
        for part in parts:
            attained = "" if part.attainment is None else f"{part.attainment:.1%}"
            line += f"  {part.replicas:>10.3g} {attained:>9}"
        yield line


def _rows(found: Found) -> Iterator[str]:
    case, best = found.case, found.cheapest
    names = {each: label(each, case) for each in found.tried}
    width = max(12, *map(len, names.values()))
    priced = case.price is not None
    yield (
        f"  {'setting':<{width}}  attained     TTFT     TPOT  replicas  most  {found.hours:>17}"
        f"{'      cost' if priced else ''}  violation min  reversals"
    )
    for each in settings_in_order(found):
        figures = found.tried[each]
        mark = "*" if each == best else "+" if keeps(figures, case) else " "
        yield (
            f"{mark} {names[each]:<{width}}  {figures.attainment:>8.2%} {figures.first_token:>8.2%} "
            f"{figures.per_token:>8.2%} {figures.replicas:>9.3g} {figures.peak:>5} "
            f"{accelerator_hours(figures, case):>18,.4g}"
            f"{f'{cost(figures, case):>10,.2f}' if priced else ''} {figures.violation_minutes:>14,} {figures.reversals:>10}"
        )
    yield f"  {'':<{width}}  + keeps the promise, * the cheapest that does"


def remarks(found: Found) -> Iterator[str]:
    """What follows, in sentences."""
    case, demand, best = found.case, found.part.demand, found.cheapest
    static = best_static(case, found.tried)
    if demand.unattainable:
        yield (
            f"beyond reach: {demand.unattainable_share:.2%} of the requests miss however many replicas there are "
            f"(first token {demand.late / demand.requests:.2%}, per output token {demand.slow / demand.requests:.2%}): "
            "on an idle replica they take longer than the objective"
        )
    if demand.unattainable_share > 1 - case.promise:
        yield (
            f"no number of replicas keeps {percent(case.promise)} of them: relax the objectives or the attainment, or "
            "serve on faster accelerators"
        )
    elif best is None:
        yield "nothing that was tried keeps the promise; see the one that comes nearest"
    else:
        figures = found.tried[best]
        words = f"cheapest that keeps the promise: {label(best, case)}, {accelerator_hours(figures, case):,.4g} {found.hours}"
        if case.price is not None:
            words += f", {cost(figures, case):,.2f}"
        if static is not None and best != static:
            words += f", {1 - figures.replica_hours / found.tried[static].replica_hours:.0%} less than static {static.replicas}"
        yield words
    if static is not None and static.replicas > case.settings.maximum:
        yield f"maxReplicas {case.settings.maximum} is fewer than the {static.replicas} that a static fleet needs"


def _together(found: Sequence[Found]) -> Iterator[str]:
    """All tiers, each with its cheapest setting."""
    hours: dict[str, float] = {}
    for each in found:
        hours[each.hours] = hours.get(each.hours, 0.0) + accelerator_hours(each.tried[each.shown], each.case)
    line = f"All tiers, each as shown over time: {', '.join(f'{n:,.4g} {what}' for what, n in hours.items())}"
    if all(each.case.price is not None for each in found):
        line += f", cost {sum(cost(each.tried[each.shown], each.case) for each in found):,.2f}"
    yield line
    for pool, (sharing, most) in shared_pools(found).items():
        names = ", ".join(each.case.name for each in sharing)
        yield (
            f"Pool {pool.selector or 'of all nodes'}, {pool.device}: {names} hold at most {most.accelerators} at once, first "
            f"at {_clock(most.at)}; the most of each adds up to {most.added}"
        )


def shared_pools(found: Sequence[Found]) -> dict[Pool, tuple[list[Found], Most]]:
    """The pools on which more than one tier draws, and what those hold at once, each as it is shown over time."""
    sharing: dict[Pool, list[Found]] = {}
    for each in found:
        if each.planned.pool is not None:
            sharing.setdefault(each.planned.pool, []).append(each)
    return {
        pool: (tiers, most_together((each.tried[each.shown].changes, each.case.devices) for each in tiers))
        for pool, tiers in sharing.items()
        if len(tiers) > 1
    }


def accelerator_hours(figures: Figures, case: Case) -> float:
    """Hours of accelerators; of replicas on CPUs."""
    return figures.replica_hours * case.devices


def cost(figures: Figures, case: Case) -> float:
    """Price of the replica-hours; 0 without a price."""
    return figures.replica_hours * (case.price or 0.0)


def _promise(case: Case) -> str:
    objectives = [
        f"{name} {duration(limit)}"
        for name, limit in (("TTFT", case.first_token), ("TPOT", case.per_token))
        if limit < inf
    ]
    return f"{', '.join(objectives)} for {percent(case.promise)} of requests"


def _step_time(case: Case) -> str:
    e = case.engine
    return (
        f"{e.fixed * 1e3:.4g} ms + {e.batch * 1e6:.4g} us per running request + {e.context * 1e9:.4g} ns per token of "
        f"context + {e.prefill * 1e6:.4g} us per prompt token"
    )


def _clock(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"
