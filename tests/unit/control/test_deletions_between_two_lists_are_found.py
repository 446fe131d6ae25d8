"""What was deleted while a watch was away is in no event: the store is compared after each list of a watch."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from tests.unit.control.kubeconfigs import kubeconfig_for
from tierwright.control import resync as resync_module
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.outcome import Done, Outcome
from tierwright.control.queue import KeyQueue
from tierwright.control.resync import Resync
from tierwright.control.wiring import Watches
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import Connection, HttpKubeClient
from tierwright.kube.resources import SERVICE, Object, ObjectRef
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.metrics import Metrics

TIER: Object = {
    "apiVersion": "tierwright.dev/v1alpha1",
    "kind": "InferenceTier",
    "metadata": {"name": "fast", "namespace": "n", "uid": "u", "resourceVersion": "5"},
    "spec": {"speed": "fast", "model": {"name": "m"}},
}
CHILD: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "fast", "namespace": "n", "resourceVersion": "6", "labels": {TIER_LABEL: "fast"}},
}
GONE = ObjectRef(SERVICE, "n", "fast")


async def nothing(_: TierKey) -> Outcome:
    return Done()


async def never(_: bool) -> Connection:
    raise NotImplementedError


@pytest.mark.parametrize("first_answer", [200, 503], ids=["answers", "fails first"])
async def test_a_child_deleted_while_a_watch_was_away_is_found_soon(
    first_answer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart the API server remembers nothing: kopf lists anew and says nothing of what is missing."""
    monkeypatch.setattr(resync_module, "LISTED", 0.0)
    monkeypatch.setattr(resync_module, "LISTED_AGAIN", 0.0)
    answers = [first_answer]

    async def lists(request: web.Request) -> web.Response:
        items = [TIER] if request.path.endswith("/inferencetiers") else []
        return web.json_response({"items": items}, status=answers.pop() if answers else 200)

    app = web.Application()
    app.router.add_get("/{path:.*}", lists)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = await HttpKubeClient.connect(str(kubeconfig_for(runner.addresses[0][1], tmp_path)))
    store, metrics, rng = (
        Store(INFERENCE_TIER, label_value, TIER_LABEL),
        Metrics(CollectorRegistry(), "1"),
        random.Random(1),
    )
    queue = KeyQueue(nothing, metrics=metrics, rng=rng)
    resync = Resync(client, store, queue, metrics, namespaces=(), interval=300.0, rng=rng)
    watches = Watches(store, lambda _: None, never, on_listed=resync.watch_listed, namespaces=())
    store.put(INFERENCE_TIER, TIER)
    store.put(SERVICE, CHILD)
    run = asyncio.create_task(resync.run())
    try:
        watches.take(SERVICE, "MODIFIED", CHILD)
        await asyncio.sleep(0.05)
        assert store.get(GONE) is not None, "an event alone asks for nothing"
        watches.take(INFERENCE_TIER, None, TIER)
        async with asyncio.timeout(10.0):
            while store.get(GONE) is not None or queue.depth() == 0:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
        assert store.tier("n", "fast") is not None
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        await client.close()
        await runner.cleanup()
