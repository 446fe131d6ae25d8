"""Says how many accelerators several fleets hold at once, so that a pool which they share can be made large enough."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierwright.planning.fleet import Change


@dataclass(frozen=True, slots=True)
class Most:
    """The largest number of accelerators that are held at once."""

    accelerators: int
    at: float
    """Seconds of the trace at which it is first reached."""
    added: int
    """What each fleet's own largest number adds up to."""


def most_together(fleets: Iterable[tuple[Sequence[Change], int]]) -> Most:
    """The most that the fleets hold at once; each is its changes over time and the accelerators of one replica.

    All fleets are of one trace, so their times are the same clock. Starting and draining replicas hold accelerators too.
    """
    steps: list[tuple[float, int]] = []
    added = 0
    for changes, devices in fleets:
        held = 0
        for change in changes:
            steps.append((change.at, change.billed * devices - held))
            held = change.billed * devices
        added += max((change.billed for change in changes), default=0) * devices
    most, total, at = 0, 0, 0.0
    steps.sort(key=lambda each: each[0])
    for place, (moment, more) in enumerate(steps):
        total += more
        ended = place + 1 == len(steps) or steps[place + 1][0] > moment
        if ended and total > most:
            most, at = total, moment
    return Most(most, at, added)
