"""Tunes every policy with the same number of trials on the training days: `python -m bench.autoscale.tune --traces DIR`.

A trial is one setting of a policy's knobs, replayed in the cheap model over the tuner's days of days.json. The first is what is shipped;
then settings are drawn evenly over the knobs' ranges, and the second half of them near the best so far. Sought is the fewest
accelerator-hours of all days together at which 99 % (and 95 %) of all requests meet both objectives. Trials are kept outside the
repository and not run again while the policy's code is the same; all policies take turns, so that an interrupted run has tuned them alike.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.autoscale.baselines import BASELINES
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.cheap import A100_8B, Run, replay
from bench.autoscale.digests import digest
from bench.autoscale.ours import Tierwright
from bench.autoscale.policy import Policy
from bench.autoscale.scenarios import DAYS, SCENARIOS
from bench.autoscale.traces import DAY, Request
from bench.autoscale.tuned import FILE
from tierwright.capacity.settings import TierSettings
from tierwright.control.pod_samples import LatencyObjectives

TRIALS = 24
TARGETS = (0.99, 0.95)
OURS = (Knob("allowed", 0.01, 0.0005, 0.1, log=True), Knob("hold", 600, 60, 3600, log=True))
"""The promise's share of misses and scaleDown.stabilization: what a tier's author may set."""
LEARNERS = ("tierwright", "sageserve-style")
"""They learn from the day before; the others get its last hour."""
_HOUR = 3600.0
_NEAR = 0.12
"""Standard deviation of a step away from the best, as a share of a knob's range."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of a policy over all days."""

    index: int
    values: Mapping[str, float]
    hours: float
    requests: int
    misses: int

    @property
    def attainment(self) -> float:
        """Share of all days' requests that met both objectives."""
        return 1 - self.misses / max(1, self.requests)


def knobs(policy: str) -> tuple[Knob, ...]:
    """What of a policy is tuned."""
    return OURS if policy == "tierwright" else BASELINES[policy].knobs


def make(policy: str, run: Run, values: Mapping[str, float]) -> Policy:
    """A fresh policy with these values."""
    if policy != "tierwright":
        return BASELINES[policy].make(run, values)
    settings = TierSettings(
        *(1, run.most, 1 - values["allowed"], "nvidia"),
        cold_start=run.cold_start,
        hold=values["hold"],
        tick=run.tick,
        lag=run.lag,
    )
    return Tierwright(settings, LatencyObjectives(run.ttft, run.tpot))


def best(trials: Sequence[Trial], target: float) -> Trial:
    """The cheapest that keeps the target, else the one that comes nearest; the earlier of two equals."""
    kept = [trial for trial in trials if trial.attainment >= target]
    if kept:
        return min(kept, key=lambda trial: (trial.hours, trial.index))
    return max(trials, key=lambda trial: (trial.attainment, -trial.index))


def proposed(policy: str, index: int, before: Sequence[Trial], trials: int = TRIALS) -> dict[str, float]:
    """The setting of a trial: the same each time for the same trials before it."""
    ranges = knobs(policy)
    if index == 0:
        return {knob.name: knob.shipped for knob in ranges}
    if policy == "static":
        return {"replicas": float(min(index, 24))}
    draw = random.Random(f"{policy}/{index}")  # noqa: S311 - a search
    if index < trials // 2 or not before:
        return {knob.name: knob.at(draw.random()) for knob in ranges}
    # The best for either target in turn, so that both fronts are searched.
    middle = best(before, TARGETS[index % len(TARGETS)]).values
    return {
        knob.name: knob.at(min(1.0, max(0.0, knob.share(middle[knob.name]) + draw.gauss(0, _NEAR))))
        for knob in ranges
    }


def code(policy: str) -> str:
    """Digest of the code that decides."""
    if policy == "tierwright":
        return digest("tierwright.capacity.policy")
    return digest(type(BASELINES[policy].make(Run(A100_8B))).__module__)


def policies(only: Sequence[str] | None = None) -> list[str]:
    """Every policy that can be tuned in this environment."""
    names = [name for name, each in BASELINES.items() if each.available and not each.tuned_as]
    return [name for name in (*names, "tierwright") if not only or name in only]


class Days:
    """The training days, read when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: list[str] = DAYS["tuner"]
        self._whole: dict[str, list[Request]] = {}
        self._short: dict[str, list[Request]] = {}

    def run(self, name: str, policy: str) -> tuple[list[Request], Run]:
        """The day's requests after its warm-up, and how they are run."""
        scenario = next(each for each in SCENARIOS if each.name == name)
        if name not in self._whole:
            self._whole[name] = scenario.requests(self._folder, 1)
            cut = DAY - _HOUR
            self._short[name] = [
                each._replace(at=each.at - cut) for each in self._whole[name] if each.at >= cut
            ]
        if policy in LEARNERS:
            return self._whole[name], scenario.run
        return self._short[name], replace(scenario.run, score_from=_HOUR)


def tried(policy: str, values: Mapping[str, float], days: Days) -> dict[str, list[float]]:
    """Requests, misses and accelerator-hours by day."""
    found: dict[str, list[float]] = {}
    for name in days.names:
        requests, run = days.run(name, policy)
        if policy == "static":
            run = replace(run, initial=int(values["replicas"]))
        outcome = replay(requests, make(policy, run, values), run)
        found[name] = [outcome.requests, outcome.misses, round(outcome.hours, 3)]
    return found


def trials_of(
    rows: Sequence[Mapping[str, Any]], policy: str, version: str, days: Sequence[str]
) -> list[Trial]:
    """The trials of this version of the policy's code over these days, in order."""
    found: dict[int, Trial] = {}
    for row in rows:
        if row["policy"] == policy and row["code"] == version and list(row["days"]) == list(days):
            totals = [sum(day[place] for day in row["days"].values()) for place in range(3)]
            found[row["trial"]] = Trial(
                row["trial"], row["values"], totals[2], int(totals[0]), int(totals[1])
            )
    return [found[index] for index in sorted(found)]


def collected(rows: Sequence[Mapping[str, Any]], names: Sequence[str], days: Sequence[str]) -> dict[str, Any]:
    """What goes into tuned.json."""
    found: dict[str, Any] = {}
    for name in names:
        version = code(name)
        trials = trials_of(rows, name, version, days)
        if not trials:
            continue
        found[name] = {"code": version, "trials": len(trials), "shipped": _told(trials[0], 0.99)}
        found[name].update({f"{target:g}": _told(best(trials, target), target) for target in TARGETS})
    return {
        "about": "The cheapest trial of each policy that kept the share of requests, over the training days together.",
        "days": list(days),
        "policies": found,
    }


def _told(trial: Trial, target: float) -> dict[str, Any]:
    return {
        "values": {name: float(f"{value:.5g}") for name, value in trial.values.items()},
        "hours": round(trial.hours, 1),
        "attainment": round(trial.attainment, 5),
        "kept": trial.attainment >= target,
        "trial": trial.index,
    }


def kept_at() -> Path:
    """Where trials are kept."""
    cache = os.environ.get("TIERWRIGHT_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache/tierwright") / "bench/autoscale/trials.jsonl"


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where it is not there, and a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def main() -> None:
    """Run the trials that are missing until the time is over, then write tuned.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the public traces")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--policy", action="append", help="default: all that can be made here")
    parser.add_argument("--skip", action="append", default=[], help="a policy to leave for later")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no trial after so long")
    asked = parser.parse_args()
    path, days, begun = kept_at(), Days(asked.traces), time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = read(path)
    names = [name for name in policies(asked.policy) if name not in asked.skip]
    versions = {name: code(name) for name in names}
    for index in range(asked.trials):
        for name in names:
            before = trials_of(rows, name, versions[name], days.names)
            if any(trial.index == index for trial in before):
                continue
            if time.monotonic() - begun > 60 * asked.minutes:
                break
            values = proposed(name, index, before, asked.trials)
            started = time.process_time()
            row = {
                "policy": name,
                "trial": index,
                "code": versions[name],
                "values": values,
                "days": tried(name, values, days),
                "seconds": round(time.process_time() - started, 1),
            }
            rows.append(row)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    document = json.dumps(collected(rows, policies(), days.names), indent=1)
    FILE.write_text(document + "\n", "utf-8")


if __name__ == "__main__":
    main()
