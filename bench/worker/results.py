"""bench/results/worker.json: what each part measured, and the figures of all parts; written after each part."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "worker.json"
FORMAT = 1


@dataclass(slots=True)
class Results:
    """Parts by name. A part: its figures, all that they come from, and when, where and how undisturbed it was measured."""

    machine: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of all parts."""
        return {key: value for part in self.parts.values() for key, value in part["figures"].items()}

    @property
    def busy(self) -> set[str]:
        """Keys of figures that were measured while others used the machine."""
        return {key for part in self.parts.values() if part["busy"] for key in part["figures"]}


def read_results(path: Path, machine: Mapping[str, Any]) -> Results:
    """What was measured before on this machine; nothing where that was another machine, or there is no file.

    Raises:
        ValueError: the file is of another format.
    """
    if not path.is_file():
        return Results(dict(machine))
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored.get("format") != FORMAT:
        raise ValueError(f"{path} has format {stored.get('format')!r}, not {FORMAT}; move it away")
    if stored["machine"] != dict(machine):
        return Results(dict(machine))
    return Results(stored["machine"], stored["parts"])


def load_results(path: Path) -> Results:
    """What was measured, on whatever machine."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Results(stored["machine"], stored["parts"])


def write_results(path: Path, results: Results) -> None:
    """Write all; the old file is there until the new one is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "machine": results.machine,
        "figures": results.figures,
        "measured_on_a_busy_machine": sorted(results.busy),
        "parts": results.parts,
    }
    work = path.with_suffix(".part")
    work.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    work.replace(path)
