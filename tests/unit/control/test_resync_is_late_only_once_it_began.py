"""How late a resync is counts from the moment at which resyncs begin, not from the start of the process."""

import asyncio
import contextlib
import random
from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.unit.control.kubeconfigs import unreachable_kubeconfig
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.outcome import Done, Outcome
from tierwright.control.queue import KeyQueue
from tierwright.control.resync import Resync
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import HttpKubeClient
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.metrics import Metrics

INTERVAL = 300.0


async def nothing(_: TierKey) -> Outcome:
    return Done()


async def test_an_operator_that_waited_for_its_crd_for_hours_is_alive_when_it_begins(tmp_path: Path) -> None:
    now = 1000.0
    metrics = Metrics(CollectorRegistry(), "1")
    rng = random.Random(1)
    client = await HttpKubeClient.connect(str(unreachable_kubeconfig(tmp_path)))
    resync = Resync(
        client,
        Store(INFERENCE_TIER, label_value, TIER_LABEL),
        KeyQueue(nothing, metrics=metrics, rng=rng),
        metrics,
        namespaces=(),
        interval=INTERVAL,
        rng=rng,
        clock=lambda: now,
    )
    now += 7200.0
    run = asyncio.create_task(resync.run())
    try:
        await asyncio.sleep(0)
        assert resync.overdue() == -INTERVAL
        now += INTERVAL + 60.0
        assert resync.overdue() == 60.0, "a loop that is stuck shows"
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        await client.close()
