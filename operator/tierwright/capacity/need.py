"""How many replicas the foretold work and the backlog call for."""

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


def replicas_for(outlook: Outlook, curve: MissCurve, target: float, most: int) -> int:
    """The fewest replicas with which no more than the target share is expected to miss; `most + 1` says that `most` are too few."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if outlook.misses(middle, curve) <= target:
            high = middle
        else:
            low = middle
    return high


def unavoidable(curve: MissCurve, allowed: float) -> float:
    """Share of misses that is conceded on top of the allowance, since no replica prevents it.

    Half of the allowance always stays for the misses that replicas do prevent, however high the curve's floor.
    """
    return max(0.0, curve.floor - allowed / 2)


def backlog_load(backlog: float, work: float, demand: float, ready: int, horizon: float) -> float:
    """Load that a backlog adds at the horizon: what the ready replicas cannot drain before further ones are ready."""
    drained = max(0.0, ready * SATURATION - demand) * horizon
    return max(0.0, backlog * work - drained) / horizon
