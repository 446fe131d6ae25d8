"""What the benchmark runs, the most telling first: scenarios, engines, cold starts, policies, their settings and seeds."""

from collections.abc import Iterable, Iterator, Sequence

from bench.autoscale.baselines import BASELINES
from bench.autoscale.measure import GAUGES_ONLY, Cell
from bench.autoscale.scenarios import SCENARIOS, Scenario
from bench.autoscale.tune import LEARNERS, knobs
from bench.autoscale.tuned import tuned

OURS = "tierwright"
ORACLE = "oracle"
STRONGEST = ("llm-d-slo-aware", "chiron-style", "sageserve-style")
"""The published rules that come nearest to fixed fleets at 99 %; they run where not all do."""
DAYS = ("servegen-day8", "servegen-day-10")
SEEDS = (1, 2, 3, 4, 5)
PROMISES = (0.95, 0.99, 0.995, 0.998)
CLAIRVOYANT = (0.98, 0.99, 0.995)
"""Targets of the clairvoyant in the cheap model; the referee says what they come to."""
H100_DAYS = tuple(each.name for each in SCENARIOS if not each.tuning and each.run.hardware.name == "8b-h100")
FURTHER_ENGINES = (
    "70b-h100x4",
    "8b-inf2-assumed",
    "8b-inf2-assumed-30pc-faster",
    "8b-inf2-assumed-30pc-slower",
)
FOR_95 = ("promise-95", "tuned-95", "0.98")
"""Settings for 95 %, which run with the first seed alone."""
COLD_STARTS = (60.0, 300.0, 600.0)

Values = tuple[tuple[str, float], ...]


def policies() -> list[str]:
    """Every policy that can be made in this environment: fixed fleets, ours, the strongest, the others, the clairvoyant."""
    others = [name for name, each in BASELINES.items() if each.available]
    first = ["static", OURS, *STRONGEST]
    return [*first, *(name for name in others if name not in first), ORACLE]


def settings(policy: str, scenario: Scenario) -> list[tuple[str, Values]]:
    """A policy's variants: their name and their values."""
    if policy == "static":
        return [(str(size), (("replicas", float(size)),)) for size in scenario.statics]
    if policy == ORACLE:
        return [(f"{target:g}", (("target", target),)) for target in CLAIRVOYANT]
    shipped = {knob.name: knob.shipped for knob in knobs(policy)}
    found = [("shipped", tuple(shipped.items()))]
    if policy == OURS:
        promises = (
            (promise, tuple({**shipped, "allowed": round(1 - promise, 6)}.items())) for promise in PROMISES
        )
        found += [
            (f"promise-{100 * promise:g}", values) for promise, values in promises if values != found[0][1]
        ]
    for attainment in (0.99, 0.95):
        best = tuned(policy, attainment)
        values = tuple(best.values.items()) if best else ()
        if values and values not in [each for _, each in found]:
            found.append((f"tuned-{100 * attainment:g}", values))
    return found


def cells(
    scenarios: Iterable[str],
    names: Sequence[str],
    seeds: Sequence[int],
    hardware: str = "",
    cold_start: float = 0.0,
) -> Iterator[Cell]:
    """Each policy's settings on each scenario, all of one seed before the next."""
    by_name = {each.name: each for each in SCENARIOS}
    for seed in seeds:
        for name in scenarios:
            for policy in names:
                for variant, values in settings(policy, by_name[name]):
                    if seed != SEEDS[0] and variant in FOR_95:
                        continue
                    yield Cell(name, policy, variant, values, seed, hardware, cold_start)


def grid() -> list[Cell]:
    """The whole benchmark, in the order in which it is run; no cell twice.

    Every published rule runs on the two reporting days on the A100 and on the hours, and with the first seed on the H100. The
    strongest three, fixed fleets, ours and the clairvoyant run everywhere.
    """
    few = ["static", OURS, *STRONGEST, ORACLE]
    every = policies()
    named = [each.name for each in SCENARIOS if not each.tuning and each.name not in (*DAYS, *H100_DAYS)]
    hours = [name for name in named if KINDS[name] == "hour"]
    made = [name for name in named if KINDS[name] in ("shape", "fault")]
    days = [name for name in named if KINDS[name] == "day"]
    found = [
        *cells(DAYS, ["static", OURS], SEEDS[:1]),
        *cells(hours, every, SEEDS[:1]),
        *cells(made, few, SEEDS[:1]),
        *cells(DAYS, few, SEEDS[:1]),
        *_cheap(cells([*DAYS, *hours], ["static", OURS, STRONGEST[0]], SEEDS[:1])),
        *cells(DAYS, every, SEEDS[:1]),
        *cells(DAYS, few, SEEDS),
        *cells(hours, every, SEEDS),
        *cells(days, few, SEEDS[:1]),
        *cells(H100_DAYS, few, SEEDS[:1]),
        *cells(H100_DAYS, ["static", OURS, STRONGEST[0], ORACLE], SEEDS),
        *cells(DAYS, every, SEEDS),
        *cells(H100_DAYS, every, SEEDS[:1]),
        *cells(made, few, SEEDS),
        *(each for seconds in COLD_STARTS for each in cells(DAYS[:1], few, SEEDS[:1], cold_start=seconds)),
        *(each for engine in FURTHER_ENGINES for each in cells(DAYS[:1], few, SEEDS[:1], engine)),
    ]
    return list(dict.fromkeys(found))


KINDS = {each.name: each.kind for each in SCENARIOS}
LONG = frozenset(name for name, kind in KINDS.items() if kind == "day")
"""Scenarios of whole days."""


def _cheap(each: Iterable[Cell]) -> Iterator[Cell]:
    """The same cells in the cheap model, to check it against the referee."""
    for cell in each:
        yield Cell(
            cell.scenario,
            cell.policy,
            cell.variant,
            cell.values,
            cell.seed,
            cell.hardware,
            cell.cold_start,
            "cheap",
        )


def estimate(cell: Cell, learned: dict[tuple[str, str, bool], float]) -> float:
    """Processor seconds that a cell may take: as the last of its kind did, else by its length."""
    kind = (cell.scenario, cell.engine, cell.policy in LEARNERS)
    if kind in learned:
        return learned[kind]
    if cell.scenario not in LONG:
        seconds = 4.0
    elif cell.policy in LEARNERS:
        seconds = 190.0
    else:
        seconds = 90.0 if cell.policy in GAUGES_ONLY else 150.0
    return seconds * (2.0 if cell.scenario in H100_DAYS else 1.0) * (0.1 if cell.engine == "cheap" else 1.0)
