"""The best-known clairvoyant: the cheapest sizes of a fleet over a day whose requests are all known, for a share of misses.

What each minute would miss with each size comes from fixed fleets of the same model. A price per miss turns that into a shortest
path over sizes, where a replica that starts is billed before it serves; the price is bisected until the day's misses fit. The path
is then replayed: what a fleet inherits when its size changes is in the replay alone, so the replayed figures count.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bench.autoscale.baselines import Static
from bench.autoscale.cheap import Run, replay
from bench.autoscale.policy import Snapshot
from bench.autoscale.scenarios import SCENARIOS
from tierwright.planning.engine import Request

SLOT = 60.0
"""Seconds between two changes of the size; slots of 10 s save another 0.2 %."""
_ROUNDS = 24


@dataclass(frozen=True, slots=True)
class Oracle:
    """Sizes by slot from `begin` on, and what the model of independent slots says of them."""

    begin: float
    sizes: tuple[int, ...]
    hours: float
    attainment: float


class Known:
    """Follows known sizes and asks for each replica a start ahead of its need."""

    def __init__(self, oracle: Oracle, lead: float) -> None:
        self.name = "oracle"
        self._oracle, self._lead = oracle, lead

    def tick(self, seen: Snapshot) -> int | None:
        """The most of the sizes from now until a replica asked for now is ready."""
        first = int((seen.now - self._oracle.begin) // SLOT)
        last = int((seen.now + self._lead - self._oracle.begin) // SLOT)
        if last < 0:
            return None
        sizes = self._oracle.sizes
        return max(sizes[min(max(first, 0), len(sizes) - 1) : last + 1])


def oracle(requests: Sequence[Request], run: Run, target: float, most: int) -> Oracle:
    """The cheapest path from `run.score_from` on. Raises ValueError where even the largest fleet misses more than the target allows."""
    asked, table = missed_by_size(requests, run, most)
    sizes = cheapest(table, (1 - target) * asked, SLOT, run.cold_start)
    missed = sum(row[size - 1] for row, size in zip(table, sizes, strict=True))
    begin = int(run.score_from // SLOT) * SLOT
    return Oracle(begin, sizes, cost(sizes, SLOT, run.cold_start) / 3600, 1 - missed / asked)


def missed_by_size(requests: Sequence[Request], run: Run, most: int) -> tuple[int, list[list[int]]]:
    """How many requests are scored, and of each minute's, what a fixed fleet misses of each size from 1 to `most`."""
    first = int(run.score_from // SLOT)
    minutes = int(requests[-1].at // SLOT) + 1 - first
    table: list[list[int]] = [[] for _ in range(minutes)]
    asked = 0
    for size in range(1, most + 1):
        outcome = replay(requests, Static(size), replace(run, initial=size))
        asked = outcome.requests
        for minute in range(minutes):
            table[minute].append(outcome.by_minute.get(first + minute, [0, 0])[1])
    return asked, table


def cost(sizes: Sequence[int], slot: float, start: float) -> float:
    """Replica-seconds that are billed: the sizes, and the starts."""
    ups = sum(max(0, after - before) for before, after in pairwise(sizes))
    return slot * sum(sizes) + start * ups


def cheapest(table: Sequence[Sequence[float]], allowed: float, slot: float, start: float) -> tuple[int, ...]:
    """Sizes (from 1) per slot with the least cost whose misses are at most `allowed`; `table[slot][size - 1]` are the misses.

    A Lagrangian: exact for the misses that it ends at, which may be a little below what is allowed.
    """
    low, high = 1e-3, 1e6
    best = path(table, high, slot, start)
    if _missed(table, best) > allowed:
        raise ValueError(
            f"the largest fleet misses {_missed(table, best):.0f} requests; {allowed:.0f} are allowed"
        )
    for _ in range(_ROUNDS):
        price = (low * high) ** 0.5
        found = path(table, price, slot, start)
        if _missed(table, found) <= allowed:
            high, best = price, found
        else:
            low = price
    return best


def path(table: Sequence[Sequence[float]], price: float, slot: float, start: float) -> tuple[int, ...]:
    """The sizes with the least `cost + price · misses`: growing costs a start for each replica, shrinking nothing."""
    count = len(table[0])
    ahead = [0.0] * count
    choices: list[list[int]] = []
    for row in reversed(table):
        up, down = list(range(count)), list(range(count))
        for size in reversed(range(count - 1)):
            if ahead[up[size + 1]] + start * (up[size + 1] - size) < ahead[size]:
                up[size] = up[size + 1]
        for size in range(1, count):
            if ahead[down[size - 1]] <= ahead[size]:
                down[size] = down[size - 1]
        grown = [ahead[up[size]] + start * (up[size] - size) for size in range(count)]
        choices.append([up[s] if grown[s] < ahead[down[s]] else down[s] for s in range(count)])
        ahead = [slot * (s + 1) + price * row[s] + min(grown[s], ahead[down[s]]) for s in range(count)]
    size = min(range(count), key=ahead.__getitem__)
    sizes = []
    for choice in reversed(choices):
        sizes.append(size + 1)
        size = choice[size]
    return tuple(sizes)


def _missed(table: Sequence[Sequence[float]], sizes: Sequence[int]) -> float:
    return sum(row[size - 1] for row, size in zip(table, sizes, strict=True))


def main() -> None:
    """Print the clairvoyant of each scenario that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the public traces")
    parser.add_argument("--scenario", action="append", required=True)
    parser.add_argument("--attainment", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for scenario in SCENARIOS:
        if scenario.name in asked.scenario:
            requests = scenario.requests(asked.traces, asked.seed)
            known = oracle(requests, scenario.run, asked.attainment, scenario.run.most)
            run = replace(scenario.run, initial=known.sizes[0])
            outcome = replay(requests, Known(known, run.cold_start), run)
            print(
                f"{scenario.name}: {outcome.hours:.1f} h at {outcome.attainment:.2%}, most {max(known.sizes)}"
            )


if __name__ == "__main__":
    main()
