"""Fills the benchmark's rows, the most telling first, and writes results and page: `make bench-autoscale`, ARGS=--help.

It may be killed at any moment, begun again, and run by several processes at once: finished rows are kept outside the clone under a
digest of all that they depend on, and only what has changed is run again.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.autoscale.cells import ORACLE, OURS, estimate, grid
from bench.autoscale.measure import DATA, Cell, cache_folder, key, measured, requests_digest
from bench.autoscale.page import anchor_row
from bench.autoscale.results import RESULTS, as_text, document
from bench.autoscale.rows import Row, Rows
from bench.autoscale.tune import LEARNERS


def fill(
    asked: list[Cell], rows: Rows, data: Path, minutes: float, say: Callable[[str], None] = print
) -> tuple[int, int]:
    """Run what has no row, until the time is over. Returns how many rows there are, and how many there could be."""
    begun, learned = time.monotonic(), dict[tuple[str, str, bool], float]()
    keys = {cell: key(cell) for cell in asked}
    done = {cell for cell in asked if rows.get(keys[cell]) is not None}

    def current(cell: Cell) -> Row | None:
        row = rows.get(keys[cell])
        return row if row is not None and row["drawn"] == requests_digest(cell.scenario, data) else None

    for place, cell in enumerate(asked):
        if time.monotonic() - begun > 60 * minutes:
            break
        row = current(cell)
        if row is None:
            with rows.claimed(keys[cell]) as free:
                if not free or current(cell) is not None:
                    continue
                row = run(cell, data)
                rows.put(keys[cell], row)
            done.add(cell)
            left = sum(estimate(each, learned) for each in asked[place + 1 :] if each not in done)
            say(f"{len(done)}/{len(asked)}, about {left / 3600:.1f} processor hours left: {told(row)}")
        learned[cell.scenario, cell.engine, cell.policy in LEARNERS] = row["cpu_seconds"]
    return len(done), len(asked)


def run(cell: Cell, data: Path) -> Row:
    """One row."""
    if cell.policy == ORACLE:
        # Imported here: only the clairvoyant needs it.
        from bench.autoscale.clairvoyant import clairvoyant

        return clairvoyant(cell, data)
    return measured(cell, data, days=cell.policy in (OURS, "llm-d-slo-aware") and cell.seed == 1)


def told(row: Row) -> str:
    """A row in a line."""
    return (
        f"{row['scenario']} {row['hardware']} {row['cold_start']:g} s, {row['engine']}, seed {row['seed']}: {row['policy']} {row['variant']}"
        f" {row['accelerator_hours']:.1f} h, {row['attainment']:.3%}, {row['cpu_seconds']:.0f} s"
    )


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the traces and latency tables")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after so long")
    parser.add_argument("--scenario", action="append", help="these alone")
    parser.add_argument("--policy", action="append", help="these alone")
    parser.add_argument("--hardware", action="append", help="these alone")
    parser.add_argument("--seed", action="append", type=int, help="these alone")
    parser.add_argument(
        "--plan", action="store_true", help="tell what there is to run and what it costs, and run nothing"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, write what there is")
    return parser.parse_args(arguments)


def main() -> None:
    """Fill what is asked for, then write the results of all that there is."""
    asked = parsed()
    rows, whole = Rows(cache_folder() / "rows"), grid()
    wanted = [
        cell
        for cell in whole
        if cell.scenario in (asked.scenario or [cell.scenario])
        and cell.policy in (asked.policy or [cell.policy])
        and cell.hardware in (asked.hardware or [cell.hardware])
        and cell.seed in (asked.seed or [cell.seed])
    ]
    if asked.plan:
        left = [cell for cell in wanted if rows.get(key(cell)) is None]
        print(
            f"{len(wanted)} runs, {len(left)} to do, about {sum(estimate(each, {}) for each in left) / 3600:.1f} processor hours"
        )
        return
    if not asked.report:
        there, possible = fill(wanted, rows, asked.data, asked.minutes, lambda line: print(line, flush=True))
        print(f"{there} of {possible} rows", file=sys.stderr)
    found = [row for cell in whole if (row := rows.get(key(cell))) is not None]
    results = document(found, len(whole))
    # Imported here: whoever only asks for the plan needs no referee.
    from bench.autoscale.anchor import SETUPS, deviations

    results["anchor"] = [anchor_row(each) for setup in SETUPS for each in deviations(asked.data, setup)]
    RESULTS.write_text(as_text(results), encoding="utf-8")


if __name__ == "__main__":
    main()
