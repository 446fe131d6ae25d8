"""What the rows come to: frontiers over each policy's knob, savings with their intervals, and the summary of bench/results/autoscale.json."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.autoscale.cells import KINDS, LONG, ORACLE, OURS
from bench.autoscale.rows import Row

RESULTS = Path(__file__).parents[1] / "results" / "autoscale.json"
TARGETS = (0.99, 0.95)
STATIC = "static"
MAIN = ("8b-a100", 180.0)
"""Engine and cold start of the summary."""
_DRAWS = 2000

Point = tuple[float, float]
"""Accelerator-hours and attainment."""
Place = tuple[str, str, float]
"""Scenario, hardware, cold start."""


def frontier(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The settings that no other beats in both, by hours."""
    found: list[Point] = []
    for hours, attainment in sorted(
        ((row["accelerator_hours"], row["attainment"]) for row in rows), key=lambda each: (each[0], -each[1])
    ):
        if not found or attainment > found[-1][1]:
            found.append((hours, attainment))
    return found


def hours_at(points: Sequence[Point], target: float) -> float | None:
    """Hours for an attainment, linear between two settings (a mixture of both in time has it); None where no setting reaches it.

    Where even the cheapest setting has more, its hours: nothing is extrapolated.
    """
    if not points or points[-1][1] < target:
        return None
    if points[0][1] >= target:
        return points[0][0]
    for (low, less), (high, more) in pairwise(points):
        if more >= target:
            return low + (high - low) * (target - less) / (more - less)
    return None  # pragma: no cover - the last point reaches it


def attainment_at(points: Sequence[Point], hours: float) -> float | None:
    """Attainment for so many hours, likewise; None below the cheapest setting."""
    if not points or points[0][0] > hours:
        return None
    for (low, less), (high, more) in pairwise(points):
        if high >= hours:
            return less + (more - less) * (hours - low) / (high - low)
    return points[-1][1]


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % bootstrap interval of the mean over seeds; None for fewer than three."""
    if len(values) < 3:
        return None
    draw = random.Random(len(values))  # noqa: S311 - a bootstrap
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]


class Found:
    """The referee's rows by place, policy and seed."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._by: dict[tuple[Place, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            if row["engine"] == "referee":
                place = (row["scenario"], row["hardware"], row["cold_start"])
                self._by[place, row["policy"]][row["seed"]].append(row)

    @property
    def places(self) -> list[Place]:
        """Where anything was run, in the order of the rows."""
        return list(dict.fromkeys(place for place, _ in self._by))

    def policies(self, place: Place) -> list[str]:
        """Which policies were run there."""
        return [policy for at, policy in self._by if at == place]

    def of(self, place: Place, policy: str) -> Mapping[int, list[Row]]:
        """Rows by seed."""
        return self._by.get((place, policy), {})

    def hours(self, place: Place, policy: str, target: float) -> dict[int, float]:
        """Hours for an attainment by seed; seeds that do not reach it are left out."""
        found = {
            seed: hours_at(frontier(rows), target) for seed, rows in sorted(self.of(place, policy).items())
        }
        return {seed: hours for seed, hours in found.items() if hours is not None}

    def mean_hours(self, place: Place, policy: str, target: float) -> float | None:
        """Mean over the seeds; None unless each of them reaches it."""
        hours = self.hours(place, policy, target)
        return fmean(hours.values()) if hours and len(hours) == len(self.of(place, policy)) else None

    def against(self, place: Place, policy: str, other: str, target: float) -> list[float]:
        """Hours of a policy over another's, by the seeds that both have."""
        mine, theirs = self.hours(place, policy, target), self.hours(place, other, target)
        return [mine[seed] / theirs[seed] for seed in mine if seed in theirs]


def summary(found: Found) -> dict[str, float | None]:
    """The figures of the whole benchmark, each its worst over the scenarios; None where no row tells it."""
    days = [place for place in found.places if place[0] in LONG and place[1:] == MAIN]
    hours = [place for place in found.places if KINDS.get(place[0]) == "hour" and place[1:] == MAIN]
    ours = [row for row in found.rows if row["policy"] == OURS and row["engine"] == "referee"]
    shipped = [row for row in ours if row["variant"] == "shipped"]

    def baselines(place: Place) -> list[str]:
        return [each for each in found.policies(place) if each not in (OURS, ORACLE, STATIC)]

    def saving(place: Place, others: Sequence[str]) -> float | None:
        """Against the cheapest of the others, in percent; -100 where ours never gets there and one of them does."""
        costs = {each: found.mean_hours(place, each, 0.99) for each in others}
        known = {each: cost for each, cost in costs.items() if cost is not None}
        if not known or not found.of(place, OURS):
            return None
        ratios = found.against(place, OURS, min(known, key=lambda each: known[each]), 0.99)
        return round(100 * (1 - fmean(ratios)), 1) if ratios else -100.0

    def oracle(place: Place) -> float | None:
        ratios = found.against(place, OURS, ORACLE, 0.99)
        return round(fmean(ratios), 3) if ratios else None

    def burst(place: Place) -> float | None:
        found_ = saving(place, [STATIC])
        return None if found_ is None else -found_

    return {
        "saving_vs_best_static_pct": _worst(min, (saving(each, [STATIC]) for each in days)),
        "saving_vs_best_baseline_pct": _worst(min, (saving(each, baselines(each)) for each in days)),
        "oracle_ratio": _worst(max, map(oracle, days)),
        "burst_vs_static_pct": _worst(max, map(burst, hours)),
        "reversals_per_hour": _worst(max, (row["reversals_per_hour"] for row in shipped)),
        "miss_share_error_points": _worst(max, (told_error(row) for row in ours)),
    }


def told_error(row: Mapping[str, Any]) -> float | None:
    """Percentage points between the share of misses that the tier would report and the truth."""
    told = row["told_miss_share"]
    return None if told is None else round(100 * abs(told - (1 - row["attainment"])), 3)


def _worst(pick: Callable[[Iterable[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return pick(known) if known else None


def document(rows: Sequence[Row], possible: int) -> dict[str, Any]:
    """What is written to bench/results/autoscale.json."""
    return {
        "about": "Every finished run of bench/autoscale, and what they come to. `possible` is the number of runs of the whole benchmark.",
        "possible": possible,
        "summary": summary(Found(rows)),
        "rows": list(rows),
    }


def as_text(results: Mapping[str, Any]) -> str:
    """The document with a line for each row."""
    head = {key: value for key, value in results.items() if key != "rows"}
    rows = ",\n".join("  " + json.dumps(row) for row in results["rows"])
    return json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + rows + "\n ]\n}\n"
