"""Decides the times of a pod's life: how long it may start, drain and roll out, in whole seconds."""

import math
from dataclasses import dataclass
from typing import Final

from tierwright.api.rollout import RolloutSpec
from tierwright.api.scalars import duration_seconds

PRE_STOP_SECONDS: Final = 10
"""Sleep before the engine is told to stop, until proxies and the gateway have dropped the endpoint."""
_STOP_MARGIN: Final = 15
_PROGRESS_MARGIN: Final = 600
_FEWEST_PROBES: Final = 30
_LONGEST_PERIOD: Final = 10


@dataclass(frozen=True)
class Budgets:
    """Seconds that a pod gets for each part of its life."""

    startup: int
    """From the start of the engine's process to its first healthy answer."""
    startup_period: int
    """Between two startup probes."""
    startup_failures: int
    """Failed startup probes until the container is restarted."""
    drain: int
    """For requests in flight once the engine is told to stop."""
    grace: int
    """terminationGracePeriodSeconds."""
    progress: int
    """progressDeadlineSeconds."""
    compile: int
    """activeDeadlineSeconds of the Job that compiles: it loads and compiles as a start does, after a node and an image."""


def budgets(rollout: RolloutSpec, *, fetches: bool) -> Budgets:
    """The times that follow from the rollout settings.

    Args:
        rollout: the user's settings.
        fetches: whether an init container fetches weights; a rollout then has that time as well.
    """
    startup = max(1, math.ceil(duration_seconds(rollout.startup_timeout)))
    drain = math.ceil(duration_seconds(rollout.drain_timeout))
    period = min(_LONGEST_PERIOD, max(1, startup // _FEWEST_PROBES))
    until_started = startup * (2 if fetches else 1) + _PROGRESS_MARGIN
    grace = PRE_STOP_SECONDS + drain + _STOP_MARGIN
    return Budgets(
        startup=startup,
        startup_period=period,
        startup_failures=math.ceil(startup / period),
        drain=drain,
        grace=grace,
        # Without spare devices the old pod drains before the new one gets its place.
        progress=grace + until_started,
        compile=until_started,
    )
