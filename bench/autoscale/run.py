"""Runs scenarios, policies and knobs and keeps one row per run: `python -m bench.autoscale.run --traces DIR --scenario NAME`.

A row that is in the file is not run again, so an interrupted benchmark goes on where it was. Rows bear a digest of the
rule's code: a changed rule is run anew.
"""

import argparse
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.autoscale import baselines
from bench.autoscale.baselines import BASELINES
from bench.autoscale.cheap import Outcome, Run, replay
from bench.autoscale.ours import Tierwright
from bench.autoscale.policy import Policy
from bench.autoscale.scenarios import SCENARIOS, Scenario
from bench.autoscale.traces import Request
from tierwright import capacity
from tierwright.capacity.settings import TierSettings
from tierwright.control.pod_samples import LatencyObjectives

Maker = Callable[[Run], Policy]


def ours(attainment: float) -> Maker:
    """The shipped policy; its knob is the promise."""

    def make(run: Run) -> Policy:
        settings = TierSettings(
            1, run.most, attainment, "nvidia", cold_start=run.cold_start, tick=run.tick, lag=run.lag
        )
        return Tierwright(settings, LatencyObjectives(run.ttft, run.tpot))

    return make


def published(name: str, knob: float) -> Maker:
    """A baseline; `knob` is the value of its first knob, and the others stay as shipped."""
    baseline = BASELINES[name]
    return lambda run: baseline.make(run, {baseline.knobs[0].name: knob})


_MORE = {"keda-waiting": (1.0,), "hpa-running": (4.0,), "llm-d-slo-aware": (1.5,)}
"""First knobs that are run beside what is shipped."""


def policies(scenario: Scenario) -> list[tuple[str, str, Maker]]:
    """Name, knob and maker; static fleets and the published rules first."""
    return [
        *(("static", str(n), published("static", n)) for n in scenario.statics),
        *(
            (name, f"{knob:g}", published(name, knob))
            for name, each in BASELINES.items()
            if name != "static"
            for knob in (each.knobs[0].shipped, *_MORE.get(name, ()))
        ),
        *(("tierwright", f"{a:g}", ours(a)) for a in (0.99, 0.995, 0.95)),
    ]


def main() -> None:
    """Run what is asked for and not yet there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the public traces")
    parser.add_argument("--rows", type=Path, default=Path("bench/results/autoscale_rows.jsonl"))
    parser.add_argument("--scenario", action="append", help="default: all that are not for tuning")
    parser.add_argument("--policy", action="append", help="default: all")
    parser.add_argument("--engine", choices=("cheap", "referee"), default="cheap")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    done = {_key(row) for row in _rows(asked.rows)}
    for scenario in SCENARIOS:
        if scenario.name not in (asked.scenario or [s.name for s in SCENARIOS if not s.tuning]):
            continue
        requests: list[Request] = []
        for name, knob, make in policies(scenario):
            key = (asked.engine, scenario.name, name, knob, asked.seed, _code(name))
            if key in done or name not in (asked.policy or [name]):
                continue
            requests = requests or scenario.requests(asked.traces, asked.seed)
            run = replace(scenario.run, seed=asked.seed)
            run = replace(run, initial=int(knob)) if name == "static" else run
            outcome = _outcome(asked.engine, requests, make(run), run, asked.traces)
            row = _row(key, run, outcome)
            with asked.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def _outcome(engine: str, requests: list[Request], policy: Policy, run: Run, traces: Path) -> Outcome:
    if engine == "cheap":
        return replay(requests, policy, run)
    # Imported here: the cheap model needs nothing that is not in the standard library.
    from bench.autoscale.referee import referee

    return referee(requests, policy, run, traces / "aic_latency_tables.csv.gz")


def _row(key: tuple[str, str, str, str, int, str], run: Run, outcome: Outcome) -> dict[str, object]:
    engine, scenario, policy, knob, seed, code = key
    scored = sum(1 for _ in outcome.by_minute) / 60
    return {
        "engine": engine,
        "scenario": scenario,
        "hardware": run.hardware.name,
        "cold_start": run.cold_start,
        "policy": policy,
        "knob": knob,
        "seed": seed,
        "code": code,
        "accelerator_hours": round(outcome.hours, 2),
        "attainment": round(outcome.attainment, 5),
        "violation_minutes": outcome.violation_minutes,
        "reversals_per_hour": round(outcome.reversals / max(0.1, scored), 2),
        "most_replicas": outcome.peak,
    }


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _key(row: dict[str, object]) -> tuple[object, ...]:
    return *(row[name] for name in ("engine", "scenario", "policy", "knob", "seed")), row.get("code", "")


def _code(policy: str) -> str:
    """Digest of the files that decide; a fixed fleet decides nothing."""
    if policy == "static":
        return ""
    package = capacity if policy == "tierwright" else baselines
    files = sorted(Path(package.__file__ or "").parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


if __name__ == "__main__":
    main()
