"""How many replicas the foretold work and the backlog call for."""

import math
from dataclasses import dataclass

from tierwright.capacity.miss_curve import SATURATION, MissCurve, read_off


@dataclass(frozen=True, slots=True)
class Outlook:
    """Work that may arrive at one time: loads in replicas at their work limit, each with its probability."""

    loads: tuple[tuple[float, float], ...]

    @property
    def mean(self) -> float:
        """Expected load."""
        return sum(weight * load for load, weight in self.loads)

    def misses(self, replicas: int, curve: MissCurve) -> float:
        """Expected share of the arriving requests that miss with so many replicas; busy minutes count by their requests."""
        mean = self.mean
        if mean <= 0:
            return curve.misses(0.0, replicas)
        table = curve.at(replicas)
        return sum(weight * load * read_off(table, load / replicas) for load, weight in self.loads) / mean


def cheapest(outlook: Outlook, curve: MissCurve, price: float, most: int) -> int:
    """The replicas whose own cost and the price of their expected misses are least together; `most + 1` says that `most` are too few.

    The price is in replicas per load that misses. Work beyond what the replicas can do costs as much again: it waits, and
    what comes after it misses too. Without that, where everything misses, one replica would be as good as many.
    """
    best, least = 1, math.inf
    replicas = max(1, int(min(outlook.mean, most)))  # fewer are saturated by the mean alone
    while replicas <= most + 1 and replicas < least:
        table = curve.at(replicas)
        spared = SATURATION * replicas
        missed = sum(
            weight * (load * read_off(table, load / replicas) + max(0.0, load - spared))
            for load, weight in outlook.loads
        )
        cost = replicas + price * missed
        if cost < least:
            best, least = replicas, cost
        replicas += 1
    return best


def unavoidable(curve: MissCurve, allowed: float) -> float:
    """Share of misses that is conceded on top of the allowance, since no replica prevents it.

    Half of the allowance always stays for the misses that replicas do prevent, however high the curve's floor.
    """
    return max(0.0, curve.floor - allowed / 2)


def backlog_load(backlog: float, work: float, demand: float, ready: int, horizon: float) -> float:
    """Load that a backlog adds at the horizon: what the ready replicas cannot drain before further ones are ready."""
    drained = max(0.0, ready * SATURATION - demand) * horizon
    return max(0.0, backlog * work - drained) / horizon
