"""Sizes of fixed fleets: the least that keeps a promise over a whole trace, and the least that keeps it in the worst hour (peak static).

Both are found in the cheap model, as anybody would who sizes a fleet in hindsight; the referee then says what they come to:
`python -m bench.autoscale.sizes --traces DIR --scenario NAME`.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.autoscale.baselines import Static
from bench.autoscale.cheap import Outcome, Run, replay
from bench.autoscale.scenarios import SCENARIOS
from bench.autoscale.traces import Request

HOUR_OF_MINUTES = 60


def best_static(requests: Sequence[Request], run: Run, target: float) -> int | None:
    """The smallest fixed fleet whose requests meet both objectives at the target's share; None where `run.most` is too few."""
    return _least(lambda size: _fixed(requests, run, size).attainment >= target, run.most)


def peak_static(requests: Sequence[Request], run: Run, target: float) -> int | None:
    """The smallest fixed fleet that keeps the target in each hour by itself; None where `run.most` is too few."""
    return _least(lambda size: worst_hour(_fixed(requests, run, size)) >= target, run.most)


def worst_hour(outcome: Outcome) -> float:
    """The least share of requests met in any scored hour of arrival."""
    hours: dict[int, list[int]] = {}
    for minute, (seen, missed) in outcome.by_minute.items():
        hour = hours.setdefault(minute // HOUR_OF_MINUTES, [0, 0])
        hour[0] += seen
        hour[1] += missed
    return min((1 - missed / seen for seen, missed in hours.values()), default=1.0)


def _fixed(requests: Sequence[Request], run: Run, size: int) -> Outcome:
    return replay(requests, Static(size), replace(run, initial=size))


def _least(enough: Callable[[int], bool], most: int) -> int | None:
    """The least size that is enough, where every larger one is, too."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= most else None


def main() -> None:
    """Print the sizes of the scenarios that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the public traces")
    parser.add_argument("--scenario", action="append", help="default: all")
    parser.add_argument("--attainment", type=float, default=0.99)
    asked = parser.parse_args()
    for scenario in SCENARIOS:
        if scenario.name in (asked.scenario or [scenario.name]):
            requests = scenario.requests(asked.traces, 1)
            best, peak = (
                find(requests, scenario.run, asked.attainment) for find in (best_static, peak_static)
            )
            print(f"{scenario.name}: best static {best}, peak static {peak}", flush=True)


if __name__ == "__main__":
    main()
