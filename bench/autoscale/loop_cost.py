"""Measures what the autoscaler's loop costs the operator: processor seconds of a tick, and what it writes, for many tiers at once.

`python -m bench.autoscale.loop_cost` reads a real page of each tier's pod over loopback and decides, in made-up time, for tiers
that have nothing to do and for tiers that serve; the server of the pages is a process of its own and not counted. Prints a
table. Needs the operator's own requirements and no cluster: writes are counted, not sent.
"""

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from bench.autoscale.parser_cpu import simulated_page
from tierwright.api.tier import InferenceTier
from tierwright.capacity.state import dump
from tierwright.control.autoscale import Autoscaler
from tierwright.control.autoscale_state import Kept, Learned
from tierwright.control.autoscale_tier import Memory
from tierwright.control.decision_words import SCALING_REASONS
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.pools import Pools
from tierwright.control.tier_settings import LoopTiming
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.engines.engine import HTTP_PORT
from tierwright.kube.resources import DEPLOYMENT, POD
from tierwright.observe.metrics import FaultKind
from tierwright.observe.readings import Scraped, ScrapeFault, Target
from tierwright.observe.scrape import Scraper, ScrapeSettings
from tierwright.observe.store import Store
from tierwright.telemetry.autoscaling import AutoscalingMetrics

ADDRESS: Final = "127.77.0.1"
NAMESPACE: Final = "bench"
TICK: Final = 10.0
SETTLING: Final = 18
"""Ticks that are not counted: three minutes, in which what is shown for the first time is written."""
_COUNTED: Final = ("_bucket", "_count", "_sum", "_total")


class Counted:
    """States that lie nowhere; how often one was written."""

    def __init__(self) -> None:
        self.writes = 0
        self.bytes = 0

    async def load(self, tier: InferenceTier) -> Learned | None:  # noqa: ARG002 - there is none of any
        """None."""
        return None

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> Kept:  # noqa: ARG002
        """Counted, and gone."""
        self.writes += 1
        self.bytes = max(self.bytes, len(dump(memory.state)))
        return Kept(True, str(self.writes))


@dataclass
class Cost:
    """What the ticks of one measurement took."""

    seconds: list[float] = field(default_factory=list)
    """Processor seconds of each tick."""
    reading: float = 0.0
    """Those of them that reading and parsing pages took."""
    changes: int = 0
    """Views that changed: each is a reconcile, and most often a write of a status."""


class Timed:
    """A scraper whose processor time is taken apart."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self.seconds = 0.0

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        """As the scraper does."""
        begin = time.process_time()
        found = await self._scraper.read(targets)
        self.seconds += time.process_time() - begin
        return found


def tier_of(name: str) -> dict[str, Any]:
    """A tier of mode Auto."""
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "model": {"name": f"bench/{name}", "source": "hf://bench/model@main"},
            "speed": "fast",
            "engine": {"type": "vllm"},
            "hardware": {"accelerator": "nvidia", "count": 1},
            "scaling": {
                "mode": "Auto",
                "maxReplicas": 8,
                "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
            },
        },
    }


def store_of(tiers: int, now: float) -> Store:
    """So many tiers, each with a workload of one replica and its ready pod."""
    store = Store(INFERENCE_TIER, label_value, TIER_LABEL)
    since = datetime.fromtimestamp(now - 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for number in range(tiers):
        name = f"tier-{number}"
        labels = {"namespace": NAMESPACE, "labels": {TIER_LABEL: label_value(name)}, "resourceVersion": "1"}
        owner = {"kind": "InferenceTier", "name": name, "uid": f"uid-{name}", "controller": True}
        store.put(INFERENCE_TIER, tier_of(name))
        store.put(
            DEPLOYMENT,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {**labels, "name": name, "uid": f"d-{name}", "ownerReferences": [owner]},
                "spec": {"replicas": 1},
            },
        )
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": since}
            for kind in ("PodScheduled", "Ready")
        ]
        store.put(
            POD,
            {
                "metadata": {**labels, "name": f"{name}-0", "uid": f"p-{name}", "creationTimestamp": since},
                "spec": {"nodeName": f"node-{number}"},
                "status": {"phase": "Running", "podIP": ADDRESS, "conditions": conditions},
            },
        )
    return store


def grown(page: str, requests: float) -> str:
    """The page of an engine that has served so many requests more."""
    lines = []
    for line in page.splitlines():
        name, _, value = line.rpartition(" ")
        family = name.partition("{")[0]
        if not line.startswith("#") and family.endswith(_COUNTED):
            more = requests * 0.02 if family.endswith("_sum") else requests
            line = f"{name} {float(value) + more}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def serve(ready: Event, rate: float) -> None:
    """Serve one page for all pods, whose requests grow by the second."""
    page, begin = simulated_page(), time.monotonic()
    shown: list[tuple[float, str]] = [(0.0, page)]

    async def answer(_: web.Request) -> web.Response:
        since = time.monotonic() - begin
        if rate > 0 and since - shown[0][0] > 1:
            shown[0] = (since, grown(page, since * rate))
        return web.Response(text=shown[0][1])

    async def started(_: web.Application) -> None:
        ready.set()

    app = web.Application()
    app.router.add_get("/metrics", answer)
    app.on_startup.append(started)
    web.run_app(app, host=ADDRESS, port=HTTP_PORT, print=None, handle_signals=False)


async def measured(tiers: int, ticks: int) -> tuple[Cost, Counted]:
    """Ticks of made-up time over real pages."""
    cost, states, clock = Cost(), Counted(), [1_800_000_000.0]
    store = store_of(tiers, clock[0])
    metrics = AutoscalingMetrics(
        CollectorRegistry(), reasons=sorted(SCALING_REASONS), causes=list(ScrapeFault), faults=list(FaultKind)
    )

    def changed(keys: set[tuple[str, str]]) -> None:
        cost.changes += len(keys)

    autoscaler = Autoscaler(
        store,
        states,
        Pools(store),
        metrics,
        changed,
        make_scraper=lambda: Scraper(ScrapeSettings()),
        timing=LoopTiming(tick=TICK),
        clock=lambda: clock[0],
    )
    async with Scraper(ScrapeSettings()) as scraper:
        timed = Timed(scraper)
        for tick in range(SETTLING + ticks):
            if tick == SETTLING:
                cost.changes, timed.seconds, states.writes = 0, 0.0, 0
            clock[0] += TICK
            begin = time.process_time()
            await autoscaler.tick(timed)
            await autoscaler.write_due()
            if tick >= SETTLING:
                cost.seconds.append(time.process_time() - begin)
        cost.reading = timed.seconds
    return cost, states


def main() -> None:
    """Print a row for tiers that rest and one for tiers that serve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiers", type=int, default=300, help="how many tiers, each of one pod")
    parser.add_argument("--ticks", type=int, default=36, help="ticks of ten seconds that are counted")
    given = parser.parse_args()
    minutes = given.ticks * TICK / 60
    print(
        f"{given.tiers} tiers of one pod, a tick each {TICK:.0f} s, pages of {len(simulated_page()):,} characters"
    )
    print(
        "| tiers | processor seconds per tick | of it reading | longest tick | of one core | views changed per minute | states written per minute | largest state |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for words, rate in (("idle", 0.0), ("serving", 2.0)):
        ready = multiprocessing.Event()
        server = multiprocessing.Process(target=serve, args=(ready, rate), daemon=True)
        server.start()
        try:
            if not ready.wait(60):
                raise SystemExit(f"no server at {ADDRESS}:{HTTP_PORT}: is the port taken?")
            time.sleep(0.5)  # it listens right after it has started
            cost, states = asyncio.run(measured(given.tiers, given.ticks))
        finally:
            server.terminate()
            server.join(10)
        mean = sum(cost.seconds) / len(cost.seconds)
        print(
            f"| {words} | {mean:.2f} | {cost.reading / len(cost.seconds):.2f} | {max(cost.seconds):.2f} | "
            f"{100 * mean / TICK:.0f} % | {cost.changes / minutes:.1f} | {states.writes / minutes:.1f} | {states.bytes:,} bytes |"
        )


if __name__ == "__main__":
    main()
