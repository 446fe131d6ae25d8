"""Writes the tables of docs/benchmarks/autoscaling.md from bench/results/autoscale.json; what stands around them is written by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.autoscale.cells import LONG, ORACLE, OURS
from bench.autoscale.results import RESULTS, STATIC, Found, Place, attainment_at, frontier, interval

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "autoscaling.md"
BEGIN = "<!-- tables: written by make bench-autoscale -->"
END = "<!-- end of tables -->"
ANCHOR = ("setup", "latency", "quantile", "measured", "replayed", "off")

Table = list[Sequence[str]]

GOALS = {
    "saving_vs_best_static_pct": (
        "at least",
        20.0,
        "day-long scenarios at 99 %: hours below the best fixed fleet's, %",
    ),
    "saving_vs_best_baseline_pct": (
        "at least",
        0.0,
        "the same against the best published rule, shipped or tuned",
    ),
    "oracle_ratio": ("at most", 1.25, "the same over the best-known clairvoyant's"),
    "burst_vs_static_pct": (
        "at most",
        5.0,
        "hours of real services at 99 %: above the best fixed fleet's, %",
    ),
    "reversals_per_hour": ("at most", 2.0, "ours as shipped, everywhere"),
    "miss_share_error_points": ("at most", 0.5, "share of misses that the tier would report, off by points"),
}
"""Bound, value and what it is, by the key of the summary."""


def write_page(path: Path, results: Mapping[str, Any]) -> None:
    """Replace what stands between the marks. Raises ValueError for a page without them."""
    text = path.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks {END if begin else BEGIN}")
    path.write_text(before + "\n".join([BEGIN, "", *tables(results), "", END]) + after, encoding="utf-8")


def tables(results: Mapping[str, Any]) -> list[str]:
    """All tables, with a heading each."""
    found = Found(results["rows"])
    lines = [
        f"{len(results['rows'])} of {results['possible']} runs have been made. Hours are accelerator-hours of the scored time, starting and "
        "draining replicas included; those at 95 % are of the first seed; a dash says that no setting comes to it, or that it was not run.",
        "",
        *markdown(goal_rows(results["summary"])),
    ]
    for place in found.places:
        scenario, hardware, cold_start = place
        lines += [
            "",
            f"### {scenario}, {hardware}, cold start {cold_start:g} s",
            "",
            *markdown(place_rows(found, place)),
        ]
    checked = crosscheck_rows(results["rows"])
    if len(checked) > 1:
        lines += ["", "### The cheap model against the referee", "", *markdown(checked)]
    if results.get("anchor"):
        lines += ["", "### The referee against a real vLLM", "", *markdown([ANCHOR, *results["anchor"]])]
    return lines


def goal_rows(summary: Mapping[str, float | None]) -> Table:
    """Each figure of the summary with its goal."""
    rows: Table = [("figure", "value", "goal", "", "what it is: the worst of")]
    for key, (bound, goal, words) in GOALS.items():
        value = summary[key]
        if value is None:
            verdict = "open"
        else:
            verdict = "met" if (value >= goal if bound == "at least" else value <= goal) else "missed"
        rows.append((f"`{key}`", "-" if value is None else f"{value:g}", f"{bound} {goal:g}", verdict, words))
    return rows


def place_rows(found: Found, place: Place) -> Table:
    """Each policy at one place, the fewest hours at 99 % first."""
    seeds = found.of(place, OURS)
    head = (
        "policy",
        "hours at 99 %",
        "hours at 95 %",
        "met at our hours",
        "over the clairvoyant",
        "as shipped",
        "minutes below 99 %",
        "longest",
        "reversals/h",
        "seeds",
    )
    equal = found.mean_hours(place, OURS, 0.99) or (
        fmean(max(point[0] for point in frontier(rows)) for rows in seeds.values()) if seeds else None
    )

    def at(policy: str, target: float) -> float:
        return found.mean_hours(place, policy, target) or float("inf")

    order = sorted(found.policies(place), key=lambda each: (at(each, 0.99), at(each, 0.95), each))
    rows: Table = [head]
    for policy in order:
        by_seed = found.of(place, policy)
        shipped = [row for rows_ in by_seed.values() for row in rows_ if row["variant"] == "shipped"]
        met = [
            share
            for rows_ in by_seed.values()
            if equal is not None and (share := attainment_at(frontier(rows_), equal)) is not None
        ]
        ratios = found.against(place, policy, ORACLE, 0.99)
        rows.append(
            (
                f"**{policy}**" if policy == OURS else policy,
                _hours(found.mean_hours(place, policy, 0.99), _spread(found, place, policy)),
                _hours(found.hours(place, policy, 0.95).get(1)),
                f"{fmean(met):.2%}" if met else "-",
                f"{fmean(ratios):.2f}" if ratios else "-",
                f"{_mean(shipped, 'accelerator_hours'):.1f} h, {_mean(shipped, 'attainment'):.2%}"
                if shipped
                else "-",
                f"{_mean(shipped, 'violation_minutes'):.0f}" if shipped else "-",
                f"{_mean(shipped, 'recovery_minutes'):.0f} min" if shipped else "-",
                f"{_mean(shipped, 'reversals_per_hour'):.1f}" if shipped else "-",
                str(len(by_seed)),
            )
        )
    return rows


def crosscheck_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same run in both engines."""

    def name(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(
            row[each] for each in ("scenario", "hardware", "cold_start", "policy", "variant", "seed")
        )

    cheap = {name(row): row for row in rows if row["engine"] == "cheap"}
    found: Table = [("scenario", "policy", "setting", "hours", "cheap", "met", "cheap")]
    for row in rows:
        other = cheap.get(name(row))
        if row["engine"] == "referee" and other is not None:
            found.append(
                (
                    *(row["scenario"], row["policy"], row["variant"]),
                    f"{row['accelerator_hours']:.1f}",
                    f"{other['accelerator_hours']:.1f}",
                    f"{row['attainment']:.2%}",
                    f"{other['attainment']:.2%}",
                )
            )
    return found


def anchor_row(each: Any) -> tuple[str, ...]:
    """A deviation as a row."""
    seconds = (
        f"{value:.2f} s" if value > 1 else f"{1000 * value:.1f} ms"
        for value in (each.measured, each.replayed)
    )
    return (each.setup, each.latency, f"{each.quantile} %", *seconds, f"{each.off:+.1%}")


def markdown(rows: Table) -> list[str]:
    """A table of Markdown; the first row is its head."""
    first, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return [first, "|" + " --- |" * len(rows[0]), *rest]


def aligned(rows: Table) -> list[str]:
    """A table for the terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _spread(found: Found, place: Place, policy: str) -> str:
    """Interval of the saving against the best fixed fleet over paired seeds."""
    if policy == STATIC or place[0] not in LONG:
        return ""
    known = interval([100 * (1 - ratio) for ratio in found.against(place, policy, STATIC, 0.99)])
    return f" ({known[0]:+.0f} to {known[1]:+.0f} % below fixed)" if known else ""


def _hours(value: float | None, spread: str = "") -> str:
    return "-" if value is None else f"{value:.1f}{spread}"


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return fmean(row[name] for row in rows)


def main() -> None:
    """Write the page and its pictures from the results that are there."""
    # Imported here: the tables need no matplotlib.
    from bench.autoscale.plots import draw

    results = json.loads(RESULTS.read_text("utf-8"))
    write_page(PAGE, results)
    draw(results)


if __name__ == "__main__":
    main()
