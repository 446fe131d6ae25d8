"""Decides whether the process is alive and ready, from the age of its own work; takes the time from its sources."""

from dataclasses import dataclass
from typing import Final

OVERDUE_RESYNC: Final = 120.0
"""Seconds beyond the interval: a resync's requests are all bounded, so a later one means that the loop is stuck."""
OVERDUE_KEY: Final = 600.0
"""Seconds by which a tier may be late in the queue: more than several reconciles at their time limit."""
OVERDUE_AUTOSCALER: Final = 120.0
"""Seconds beyond the interval: all that a tick waits for is bounded, so a later one means that the loop is stuck."""
FAILED_RESYNCS: Final = 2
"""One may fail by chance; after two in a row nobody should believe that tiers are kept."""


@dataclass(frozen=True)
class Vitals:
    """What health is judged from; seconds where a number is one."""

    primed: bool
    """The store was compared with full lists at least once."""
    watching: bool
    """The watches are running."""
    resync_overdue: float
    oldest_key_overdue: float
    autoscaler_overdue: float = 0.0
    resyncs_failed: int = 0
    """In a row."""
    resync_error: str = ""
    waiting_for: str = ""
    """What keeps the operator from working, in words; empty when nothing does."""


def liveness(vitals: Vitals) -> list[str]:
    """What a restart could mend; empty when alive. An API server that is away is not among it."""
    problems = []
    if vitals.primed and vitals.resync_overdue > OVERDUE_RESYNC:
        problems.append(f"the resync is {vitals.resync_overdue:.0f} s late")
    if vitals.oldest_key_overdue > OVERDUE_KEY:
        problems.append(f"a tier waits for its reconcile for {vitals.oldest_key_overdue:.0f} s")
    if vitals.primed and vitals.autoscaler_overdue > OVERDUE_AUTOSCALER:
        problems.append(f"the autoscaler's look at the pods is {vitals.autoscaler_overdue:.0f} s late")
    return problems


def readiness(vitals: Vitals) -> list[str]:
    """What is still missing before tiers are served; empty when ready."""
    if vitals.waiting_for:
        return [vitals.waiting_for]
    problems = []
    if not vitals.primed:
        problems.append("the objects of the cluster are being listed")
    elif not vitals.watching:
        problems.append("the watches are not running")
    if vitals.resyncs_failed >= FAILED_RESYNCS:
        problems.append(f"the last {vitals.resyncs_failed} resyncs failed: {vitals.resync_error}")
    return problems
