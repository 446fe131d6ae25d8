"""Tuned values of each policy's knobs, as the tuner left them in tuned.json beside this file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.autoscale.baselines import BASELINES

FILE = Path(__file__).with_name("tuned.json")


@dataclass(frozen=True, slots=True)
class Tuned:
    """The cheapest trial of one policy that kept an attainment on the training days, or the one that came nearest."""

    values: Mapping[str, float]
    hours: float
    attainment: float
    kept: bool
    """Whether the attainment was kept."""


def tuned(policy: str, attainment: float, file: Path = FILE) -> Tuned | None:
    """The policy's values for 0.99 or 0.95; None where it was not tuned. Raises ValueError for another attainment."""
    if attainment not in (0.95, 0.99):
        raise ValueError(f"policies are tuned for 0.95 and 0.99, not for {attainment}")
    if not file.exists():
        return None
    document: dict[str, Any] = json.loads(file.read_text("utf-8"))
    known = BASELINES.get(policy)
    found = document["policies"].get(known.tuned_as or policy if known else policy)
    if found is None:
        return None
    best = found[f"{attainment:g}"]
    return Tuned(best["values"], best["hours"], best["attainment"], best["kept"])
