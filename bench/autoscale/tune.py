"""Tunes every policy with the same number of trials on the training days: `python -m bench.autoscale.tune --traces DIR`.

A trial is one setting of a policy's knobs, replayed in the cheap model on the screening day of days.json. The first is what is shipped;
then settings are drawn evenly over the knobs' ranges and others move the first knob alone, in turn; the second half lie near the best
so far. The best of the screening are replayed on the other training days as well (finals). Sought is the fewest accelerator-hours of all
days together at which 99 % (and 95 %) of all requests meet both objectives. Runs are kept outside the repository and not repeated while
the policy's code is the same; all policies take turns, so that an interrupted run has tuned them alike.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
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
FINALISTS = (0.995, 0.99, 0.97, 0.95)
"""The cheapest on the screening day for each of these goes to the finals, and so does what is shipped."""
OURS = (Knob("allowed", 0.01, 0.0005, 0.1, log=True), Knob("hold", 600, 60, 3600, log=True))
"""The promise's share of misses and scaleDown.stabilization: what a tier's author may set."""
LEARNERS = ("tierwright", "sageserve-style")
"""They learn from the day before; the others get its last hour."""
SCREENING: str = DAYS["tuner"]["screening"]
FINALS: list[str] = DAYS["tuner"]["finals"]
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
        evenly = {knob.name: knob.at(draw.random()) for knob in ranges}
        if index % 2:
            return evenly
        first = ranges[0]
        return {**{knob.name: knob.shipped for knob in ranges}, first.name: first.at(_spread(index // 2))}
    # The best for either target in turn, so that both fronts are searched.
    middle = best(before, TARGETS[index % len(TARGETS)]).values
    return {
        knob.name: knob.at(min(1.0, max(0.0, knob.share(middle[knob.name]) + draw.gauss(0, _NEAR))))
        for knob in ranges
    }


def _spread(index: int) -> float:
    """The index's place in van der Corput's sequence: 1/2, 1/4, 3/4, 1/8, ..."""
    share, part = 0.0, 0.5
    while index:
        share, part, index = share + part * (index % 2), part / 2, index // 2
    return share


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


def tried(policy: str, values: Mapping[str, float], day: str, days: Days) -> tuple[int, int, float]:
    """Requests, misses and accelerator-hours of one day."""
    requests, run = days.run(day, policy)
    if policy == "static":
        run = replace(run, initial=int(values["replicas"]))
    outcome = replay(requests, make(policy, run, values), run)
    return outcome.requests, outcome.misses, round(outcome.hours, 3)


def trials_of(
    rows: Sequence[Mapping[str, Any]], policy: str, version: str, days: Sequence[str]
) -> list[Trial]:
    """The trials of this version of the policy's code that have been run on all of these days, in order."""
    runs: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if (row["policy"], row["code"]) == (policy, version):
            runs.setdefault(row["trial"], {})[row["day"]] = row
    return [
        Trial(
            index,
            by_day[days[0]]["values"],
            *(sum(by_day[day][name] for day in days) for name in ("hours", "requests", "misses")),
        )
        for index, by_day in sorted(runs.items())
        if set(days) <= set(by_day)
    ]


def finalists(trials: Sequence[Trial]) -> list[Trial]:
    """What is shipped, and the best of the screening."""
    chosen = {best(trials, target).index for target in FINALISTS} | {0}
    return [trial for trial in trials if trial.index in chosen]


def collected(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """What goes into tuned.json; a policy that has not been in the finals yet is told by the screening day alone."""
    found: dict[str, Any] = {}
    for name in names:
        version = code(name)
        screened = trials_of(rows, name, version, [SCREENING])
        final = trials_of(rows, name, version, [SCREENING, *FINALS])
        if not screened:
            continue
        settled = {trial.index for trial in finalists(screened)} <= {trial.index for trial in final}
        shown = final if settled else screened
        found[name] = {
            "code": version,
            "trials": len(screened),
            "days": [SCREENING, *FINALS] if settled else [SCREENING],
            "shipped": _told(shown[0], 0.99),
        }
        found[name].update({f"{target:g}": _told(best(shown, target), target) for target in TARGETS})
    return {
        "about": "The cheapest trial of each policy that kept the share of requests, over its training days together.",
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


class Tuning:
    """The rows so far, and how one is added."""

    def __init__(self, path: Path, folder: Path, names: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = read(path)
        self.names = names
        self._path, self._days = path, Days(folder)
        self._versions = {name: code(name) for name in names}

    def of(self, name: str, days: Sequence[str]) -> list[Trial]:
        """The policy's trials on these days."""
        return trials_of(self.rows, name, self._versions[name], days)

    def add(self, name: str, index: int, values: Mapping[str, float], day: str) -> None:
        """Run a setting on a day and keep its row."""
        started = time.process_time()
        requests, misses, hours = tried(name, values, day, self._days)
        row = {
            "policy": name,
            "trial": index,
            "code": self._versions[name],
            "values": dict(values),
            "day": day,
            "requests": requests,
            "misses": misses,
            "hours": hours,
            "seconds": round(time.process_time() - started, 1),
        }
        self.rows.append(row)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def missing(self, trials: int) -> Iterator[tuple[str, int, Mapping[str, float], str]]:
        """What is to be run next, while rows are added: the screening in turns, then the finals in turns."""
        for index in range(trials):
            for name in self.names:
                before = self.of(name, [SCREENING])
                if all(trial.index != index for trial in before):
                    yield name, index, proposed(name, index, before, trials), SCREENING
        yield from self.finals()

    def finals(self) -> Iterator[tuple[str, int, Mapping[str, float], str]]:
        """The finalists' runs that are missing, each policy's first finalist first."""
        for place in range(len(FINALISTS) + 1):
            for name in self.names:
                chosen = finalists(self.of(name, [SCREENING]))[place : place + 1]
                for trial in chosen:
                    for day in FINALS:
                        if all(trial.index != other.index for other in self.of(name, [SCREENING, day])):
                            yield name, trial.index, trial.values, day


def main() -> None:
    """Run what is missing until the time is over, then write tuned.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the public traces")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--policy", action="append", help="default: all that can be made here")
    parser.add_argument("--skip", action="append", default=[], help="a policy to leave for later")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so long")
    asked = parser.parse_args()
    begun = time.monotonic()
    names = [name for name in policies(asked.policy) if name not in asked.skip]
    tuning = Tuning(kept_at(), asked.traces, names)
    for name, index, values, day in tuning.missing(asked.trials):
        if time.monotonic() - begun > 60 * asked.minutes:
            break
        tuning.add(name, index, values, day)
    document = json.dumps(collected(tuning.rows, policies()), indent=1)
    FILE.write_text(document + "\n", "utf-8")


if __name__ == "__main__":
    main()
