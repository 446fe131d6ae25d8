"""Replays runs that were measured on a real vLLM, and tells by how much the referee's latencies are off."""

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from bench.autoscale.hardware import ENGINES
from bench.autoscale.referee import latencies
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Run

SETUPS = {"RTXPRO6000/Llama-3.1-8B": "8b-rtxpro6000", "RTXPRO6000/Qwen3-32B": "32b-rtxpro6000x2"}
"""Engines of this benchmark by the measured setup; of the other two setups there are no latency tables here."""
SEQUENCES, CHUNK = 128, 2048
"""What the runs were made with."""
QUANTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Deviation:
    """One latency of one setup at one quantile, in seconds; `off` is the referee's over the measured, less one."""

    setup: str
    latency: str
    quantile: int
    measured: float
    replayed: float

    @property
    def off(self) -> float:
        """Relative deviation of the referee."""
        return self.replayed / self.measured - 1


def deviations(data: Path, setup: str) -> list[Deviation]:
    """Time to the first token and time per output token at 50, 95 and 99 %."""
    requests, real_first, real_token = _measured(data / "vllm_measured_requests.csv.gz", setup)
    run = Run(ENGINES[SETUPS[setup]].hardware, initial=1, sequences=SEQUENCES, chunk=CHUNK)
    found = latencies(requests, run, data / "aic_latency_tables.csv.gz")
    first = [each.ttft for each in found]
    token = [each.tpot for each in found if each.tpot is not None]
    return [
        Deviation(setup, name, quantile, _at(real, quantile), _at(replayed, quantile))
        for name, real, replayed in (
            ("time to first token", real_first, first),
            ("time per output token", real_token, token),
        )
        for quantile in QUANTILES
    ]


def _measured(path: Path, setup: str) -> tuple[list[Request], list[float], list[float]]:
    requests, first, token = list[Request](), list[float](), list[float]()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["setup"] == setup:
                requests.append(
                    Request(float(row["arrival_s"]), int(row["input_tokens"]), int(row["output_tokens"]))
                )
                first.append(float(row["ttft_from_queued_s"]))
                if row["tpot_s"]:
                    token.append(float(row["tpot_s"]))
    return sorted(requests), first, token


def _at(values: Sequence[float], quantile: int) -> float:
    return quantiles(values, n=100, method="inclusive")[quantile - 1]
