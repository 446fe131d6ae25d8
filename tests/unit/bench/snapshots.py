"""What a rule is shown in the tests of the benchmark's baselines: pages with chosen gauges, and ticks over time."""

from bench.autoscale.fleet_page import page
from bench.autoscale.policy import Policy, Snapshot
from tierwright.planning import fleet
from tierwright.planning.counters import Counters


def text(running: int = 0, waiting: int = 0, kv: float = 0.0, blocks: int = 1000) -> str:
    """A page with these gauges and no traffic; a block holds ten tokens."""
    return page(Counters(running=running, waiting=waiting, kv_usage=kv), blocks, 10)


def seen(
    now: float,
    shown: str | None,
    ready: int,
    *,
    starting: int = 0,
    wanted: int | None = None,
    queued: int = 0,
) -> Snapshot:
    """A tick whose page was made at the tick itself."""
    ages = (5.0,) * starting
    wanted = ready + starting if wanted is None else wanted
    return fleet.Snapshot(now, None if shown is None else (now, shown), ready, ages, wanted, queued)


def follow(rule: Policy, shown: str | None, seconds: float, ready: int, *, start: float = 0.0) -> list[int]:
    """The sizes after each tick of 10 s for so long, when replicas are ready at once."""
    sizes = []
    now = start
    while now <= start + seconds:
        answer = rule.tick(seen(now, shown, ready))
        ready = ready if answer is None else answer
        sizes.append(ready)
        now += 10.0
    return sizes
