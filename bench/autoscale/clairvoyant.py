"""Runs the clairvoyant of `oracle` as a cell: its sizes are found in the cheap model and judged by whatever engine the cell names."""

import json
from dataclasses import replace
from pathlib import Path

from bench.autoscale.measure import Cell, cache_folder, measure, requests_digest, requests_of, run_of
from bench.autoscale.oracle import SLOT, Known, Oracle, cheapest, cost, missed_by_size
from bench.autoscale.rows import Row


def clairvoyant(cell: Cell, data: Path) -> Row:
    """The row of the clairvoyant whose target in the cheap model is the cell's knob; with the fleet over time."""
    run = run_of(cell)
    known = cache_folder() / "oracle"
    known.mkdir(parents=True, exist_ok=True)
    path = (
        known
        / f"{requests_digest(cell.scenario, data)}-{cell.seed}-{run.hardware.name}-{run.score_from:g}.json"
    )
    if not path.exists():
        requests = requests_of(cell.scenario, cell.seed, data, False)
        path.write_text(json.dumps(missed_by_size(requests, run, run.most)), "utf-8")
    asked, table = json.loads(path.read_text("utf-8"))
    sizes = cheapest(table, (1 - cell.knob) * asked, SLOT, run.cold_start)
    missed = sum(row[size - 1] for row, size in zip(table, sizes, strict=True))
    begin = int(run.score_from // SLOT) * SLOT
    found = Oracle(begin, sizes, cost(sizes, SLOT, run.cold_start) / 3600, 1 - missed / asked)
    return measure(
        cell, Known(found, run.cold_start), replace(run, initial=sizes[0]), data, days=cell.seed == 1
    )
