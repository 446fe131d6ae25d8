"""The benchmark within minutes: two scenarios, four published rules and ours, one seed, in the referee; prints a table."""

import argparse
from pathlib import Path

from bench.autoscale.anchor import SETUPS, deviations
from bench.autoscale.baselines import BASELINES
from bench.autoscale.cells import OURS
from bench.autoscale.measure import DATA, Cell, measured
from bench.autoscale.page import ANCHOR, aligned, anchor_row
from bench.autoscale.rows import Row
from bench.autoscale.tune import knobs

SCENARIOS = ("azure2023-code", "azure2023-conv")
STATICS = {"azure2023-code": (6, 10), "azure2023-conv": (1, 2)}
POLICIES = ("keda-waiting", "hpa-running", "llm-d-slo-aware", OURS)
HEAD = (
    "scenario",
    "policy",
    "accelerator-hours",
    "met",
    "minutes below 99 %",
    "reversals/h",
    "told of misses",
)


def cells() -> list[Cell]:
    """Fixed fleets of two sizes, three more published rules and ours, each as shipped."""
    found = []
    for scenario in SCENARIOS:
        found += [
            Cell(scenario, "static", str(size), (("replicas", float(size)),)) for size in STATICS[scenario]
        ]
        for policy in POLICIES:
            shipped = BASELINES[policy].shipped if policy in BASELINES else None
            values = shipped or {knob.name: knob.shipped for knob in knobs(policy)}
            found.append(Cell(scenario, policy, "shipped", tuple(values.items())))
    return found


def told(row: Row) -> tuple[str, ...]:
    """A row as the table has it."""
    share = row["told_miss_share"]
    return (
        row["scenario"],
        f"{row['policy']} {row['variant']}" if row["policy"] == "static" else row["policy"],
        f"{row['accelerator_hours']:.1f}",
        f"{row['attainment']:.2%}",
        str(row["violation_minutes"]),
        f"{row['reversals_per_hour']:.1f}",
        "" if share is None else f"{share:.2%} of {1 - row['attainment']:.2%}",
    )


def main() -> None:
    """Run all, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the traces and latency tables")
    data = parser.parse_args().data
    rows = []
    for cell in cells():
        print(f"{cell.scenario}: {cell.policy} {cell.variant}", flush=True)
        rows.append(told(measured(cell, data)))
    print("\n".join(["", *aligned([HEAD, *rows])]))
    print("\nthe referee against runs of a real vLLM")
    print(
        "\n".join(
            aligned([ANCHOR, *(anchor_row(each) for setup in SETUPS for each in deviations(data, setup))])
        )
    )


if __name__ == "__main__":
    main()
