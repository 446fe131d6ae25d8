"""Runs one cell of the benchmark: a policy's setting on one seed of a scenario, in the referee or the cheap model; and what makes its row stale."""

import hashlib
import json
import os
import random
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import bench.autoscale
from bench.autoscale.hardware import ENGINES
from bench.autoscale.ours import Tierwright
from bench.autoscale.policy import Policy
from bench.autoscale.scenarios import SCENARIOS, Scenario
from bench.autoscale.scrape import NoisyPages, Scraped, Scraping
from bench.autoscale.traces import Request
from bench.autoscale.tune import LEARNERS, code, make
from tierwright import control, observe, planning
from tierwright.planning import fleet
from tierwright.planning.fleet import Outcome, Run

DATA = Path(__file__).parent / "data"
HOUR = 3600.0
LAG = 30.0
"""Greatest age of a page, which a policy is told."""
GAUGES_ONLY = frozenset(
    {
        "static",
        "oracle",
        "keda-waiting",
        "hpa-running",
        "hpa-kv",
        "knative-kpa",
        "aibrix-apa",
        "kubeai",
        "ray-serve",
        "wva-v1",
    }
)
"""They read running and waiting requests and the cache's use, and nothing that is counted; a test holds them to it."""

_SETTLED = 130.0
"""The cheap model goes on for two minutes after the last request."""
VERSION = 1
"""Of what this file does with a run: raised when rows would tell other figures."""

Referee = Literal["referee", "cheap"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is run once."""

    scenario: str
    policy: str
    variant: str
    """Which setting it is: shipped, tuned-99, tuned-95, a size of a static fleet, or a promise of ours."""
    values: tuple[tuple[str, float], ...]
    seed: int = 1
    hardware: str = ""
    """Empty: the scenario's own, as is a cold start of 0."""
    cold_start: float = 0.0
    engine: Referee = "referee"

    @property
    def knob(self) -> float:
        """The value of the first knob, which moves the policy between cautious and thrifty."""
        return self.values[0][1] if self.values else 0.0


def scenario_of(cell: Cell) -> Scenario:
    """The cell's scenario. Raises ValueError for an unknown name."""
    for each in SCENARIOS:
        if each.name == cell.scenario:
            return each
    raise ValueError(f"no scenario {cell.scenario}; there are {', '.join(each.name for each in SCENARIOS)}")


def run_of(cell: Cell) -> Run:
    """How the cell's fleet is run."""
    run = replace(scenario_of(cell).run, seed=cell.seed, lag=LAG)
    if cell.hardware:
        run = replace(run, hardware=ENGINES[cell.hardware].hardware)
    if cell.cold_start:
        run = replace(run, cold_start=cell.cold_start)
    if cell.policy == "static":
        run = replace(run, initial=int(cell.knob))
    if cell.policy not in LEARNERS and run.score_from > HOUR:
        run = replace(run, score_from=HOUR)
    return run


def key(cell: Cell) -> str:
    """Digest of all that the row of a cell depends on but its requests: run, setting, the code of the policy, the scrape and the engine.

    The requests' own digest stands in the row, since it takes drawing them.
    """
    told = {
        "cell": [cell.scenario, cell.policy, cell.values, cell.engine],
        "run": asdict(run_of(cell)),
        "scraping": asdict(scraping_of(cell)),
        "policy": code_of(cell.policy),
        "version": VERSION,
        "sources": _sources(cell.policy == "tierwright", cell.engine == "referee"),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:20]


def code_of(policy: str) -> str:
    """Digest of the code that decides."""
    if policy != "oracle":
        return code(policy)
    here, plan = Path(__file__).parent, _folder(planning)
    read = [here / "oracle.py", here / "clairvoyant.py", plan / "fleet.py", plan / "replica.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()[:12]


def scraping_of(cell: Cell) -> Scraping:
    """How pages reach the policy."""
    return replace(Scraping(), outage=scenario_of(cell).run.outage)


@lru_cache(maxsize=2)
def _requests(name: str, seed: int, data: Path) -> tuple[list[Request], float]:
    scenario = next(each for each in SCENARIOS if each.name == name)
    return scenario.requests(data, seed), scenario.run.score_from


@lru_cache(maxsize=2)
def requests_of(name: str, seed: int, data: Path, whole: bool) -> list[Request]:
    """The requests of a scenario: with the day that warms up, or with its last hour alone, from which time then counts."""
    requests, score_from = _requests(name, seed, data)
    if whole or score_from <= HOUR:
        return requests
    cut = score_from - HOUR
    return [each._replace(at=each.at - cut) for each in requests if each.at >= cut]


@cache
def requests_digest(name: str, data: Path = DATA) -> str:
    """Digest of a scenario's requests with the first seed, of which the other seeds are further draws.

    Kept outside the clone, since drawing two days takes seconds.
    """
    here = Path(__file__).parent
    sources = [here / f"{each}.py" for each in ("traces", "synthetic", "scenarios")]
    sources += [here / "days.json", *sorted(data.glob("*.gz"))]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    known = cache_folder() / "requests" / f"{name}-{state}"
    if not known.exists():
        values = array("d", (value for request in _requests(name, 1, data)[0] for value in request))
        drawn = hashlib.sha256(values.tobytes()).hexdigest()[:16]
        known.parent.mkdir(parents=True, exist_ok=True)
        part = known.with_name(f"{known.name}.{os.getpid()}")
        part.write_text(drawn, "utf-8")
        part.replace(known)
    return known.read_text("utf-8")


def cache_folder() -> Path:
    """Where rows are kept, outside the clone."""
    given = os.environ.get("TIERWRIGHT_CACHE")
    return (Path(given) if given else Path.home() / ".cache" / "tierwright") / "bench" / "autoscale"


@lru_cache(maxsize=4)
def _sources(ours: bool, referee: bool) -> str:
    """Digest of what feeds the policy, and of the engine."""
    bench_, plan = Path(bench.autoscale.__file__).parent, _folder(planning)
    read = [bench_ / f"{name}.py" for name in ("fleet_page", "scrape", "hardware")]
    read += [_folder(observe) / f"{name}.py" for name in ("metrics", "page_delta")]
    read += [plan / f"{name}.py" for name in ("counters", "engine")]
    read += [bench_ / "ours.py", _folder(control) / "pod_samples.py"] if ours else []
    read += (
        [bench_ / "referee.py", bench_ / "bridge.py"] if referee else [plan / "fleet.py", plan / "replica.py"]
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()[:16]


def _folder(package: Any) -> Path:
    return Path(str(package.__path__[0]))


def measured(cell: Cell, data: Path = DATA, *, days: bool = False) -> dict[str, Any]:
    """Run the cell. With `days` the row bears the fleet over time too."""
    run = run_of(cell)
    policy = make(cell.policy, run, dict(cell.values))
    return measure(cell, policy, run, data, days=days)


def measure(cell: Cell, policy: Policy, run: Run, data: Path, *, days: bool = False) -> dict[str, Any]:
    """Run a policy as the cell says, and tell its row."""
    requests = requests_of(cell.scenario, cell.seed, data, cell.policy in LEARNERS)
    told, scraping = _Told(policy, run.score_from), scraping_of(cell)
    begun = time.process_time()
    if cell.engine == "cheap":
        outcome = _cheap(requests, told, run, scraping)
    else:
        # Imported here: the cheap model needs nothing that is not in the standard library.
        from bench.autoscale.referee import referee

        if run.score_from > HOUR:
            requests, run = _warmed_up(requests, told, run, scraping)
        outcome = referee(
            requests,
            told,
            run,
            data / "aic_latency_tables.csv.gz",
            scraping=scraping,
            gauges_only=cell.policy in GAUGES_ONLY,
        )
    return _row(
        cell, requests_digest(cell.scenario, data), run, outcome, told, time.process_time() - begun, days=days
    )


def _warmed_up(
    requests: list[Request], policy: Policy, run: Run, scraping: Scraping
) -> tuple[list[Request], Run]:
    """Let a policy learn in the cheap model until an hour before the scored time; what is left to run, from the size it ended with.

    The day that warms up may hold three times the requests of the scored one, and its engines' step times are a fit of the same tables.
    """
    cut = run.score_from - HOUR
    earlier = [each for each in requests if each.at < cut - _SETTLED]
    if not earlier:
        return requests, run
    ended = _cheap(earlier, policy, run, scraping).changes[-1].wanted
    return [each for each in requests if each.at >= cut], replace(run, initial=max(1, ended))


def _cheap(requests: Sequence[Request], policy: Policy, run: Run, scraping: Scraping) -> Outcome:
    draw = random.Random(run.seed)  # noqa: S311 - a simulation
    fresh = replace(run, lag=0.0, outage=(0.0, 0.0))
    behind = Scraped(policy, scraping, run.seed)
    return fleet.replay(requests, behind, fresh, NoisyPages(scraping, run.seed), draw.random)


def _row(
    cell: Cell, drawn: str, run: Run, outcome: Outcome, told: "_Told", seconds: float, *, days: bool
) -> dict[str, Any]:
    accelerators = ENGINES[run.hardware.name].accelerators
    hours = outcome.seconds / 3600
    row: dict[str, Any] = {
        "scenario": cell.scenario,
        "hardware": run.hardware.name,
        "cold_start": run.cold_start,
        "policy": cell.policy,
        "variant": cell.variant,
        "knob": cell.knob,
        "values": dict(cell.values),
        "seed": cell.seed,
        "engine": cell.engine,
        "accelerator_hours": round(outcome.hours * accelerators, 3),
        "attainment": round(outcome.attainment, 6),
        "requests": outcome.requests,
        "first_token_misses": outcome.first_token_misses,
        "per_token_misses": outcome.per_token_misses,
        "violation_minutes": outcome.violation_minutes,
        "reversals_per_hour": round(outcome.reversals / max(0.1, hours), 3),
        "recovery_minutes": longest_violation(outcome.by_minute),
        "most_replicas": outcome.peak,
        "told_miss_share": told.share,
        "drawn": drawn,
        "code": code_of(cell.policy),
        "cpu_seconds": round(seconds, 1),
    }
    if days:
        row["fleet"] = over_time(outcome)
    return row


def longest_violation(by_minute: Mapping[int, Sequence[int]], target: float = 0.99) -> int:
    """Minutes of the longest time in which each minute missed more than the target allows; a minute without requests ends none."""
    longest = current = 0
    for minute in sorted(by_minute):
        seen, missed = by_minute[minute]
        current = current + 1 if missed > (1 - target) * seen else 0
        longest = max(longest, current)
    return longest


def over_time(outcome: Outcome, every: float = 300.0) -> list[list[float]]:
    """Requests per second, replicas that are paid for, and share of misses, by 5 minutes of the scored time."""
    if not outcome.by_minute:
        return []
    begin, end = min(outcome.by_minute) * 60.0, (max(outcome.by_minute) + 1) * 60.0
    changes, place, found = outcome.changes, 0, []
    at = begin
    while at < end:
        while place + 1 < len(changes) and changes[place + 1].at <= at:
            place += 1
        counts = [outcome.by_minute.get(int(at // 60) + n, (0, 0)) for n in range(int(every // 60))]
        seen, missed = sum(each[0] for each in counts), sum(each[1] for each in counts)
        billed = changes[place].billed if changes else 0
        found.append([round(seen / every, 3), billed, round(missed / max(1, seen), 4)])
        at += every
    return found


class _Told:
    """Passes ticks on, and remembers the misses that a policy would report of the scored time."""

    def __init__(self, policy: Policy, score_from: float) -> None:
        self.name = policy.name
        self._policy, self._score_from = policy, score_from
        self._before: list[float] | None = None

    def tick(self, seen: fleet.Snapshot[str]) -> int | None:
        """The policy's own answer."""
        if self._before is None and seen.now >= self._score_from and isinstance(self._policy, Tierwright):
            self._before = self._policy.told
        return self._policy.tick(seen)

    @property
    def share(self) -> float | None:
        """Reported misses over requests; None for a policy that reports none."""
        if self._before is None or not isinstance(self._policy, Tierwright):
            return None
        first, first_missed, tokens, tokens_missed = (
            now - then for now, then in zip(self._policy.told, self._before, strict=True)
        )
        return round(min(1.0, first_missed / max(1.0, first) + tokens_missed / max(1.0, tokens)), 6)
