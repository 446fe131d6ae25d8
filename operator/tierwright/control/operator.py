"""The life of the operator process: start order, what happens when a watch dies, and how it ends.

In order: HTTP port, credentials, store primed by full lists, reconcile workers, watches. When a watch dies, the store
is primed again and the watches start anew in the same process; reconciling goes on meanwhile from what is known. A
process whose watches die again and again ends, so that whoever runs it sees that something is wrong. Leader election
will stand between the credentials and the first reconcile: `_lead` is its place.
"""

import asyncio
import logging
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics

import tierwright
from tierwright.control.health import Vitals, liveness, readiness
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.node_reader import NodeReader
from tierwright.control.outcome import Outcome
from tierwright.control.parts import Parts, make_autoscaler, make_reconcile
from tierwright.control.pools import Pools
from tierwright.control.queue import KeyQueue, Reconcile
from tierwright.control.resync import CrdMissingError, Resync
from tierwright.control.schedule import Timing
from tierwright.control.wiring import Watches, WatchesEndedError
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.credentials import CredentialsError
from tierwright.kube.errors import KubeError
from tierwright.kube.events import EventRecorder
from tierwright.observe.store import Store, TierKey
from tierwright.settings import Settings, SettingsError
from tierwright.telemetry.http import application, serve
from tierwright.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_NO_CREDENTIALS: Final = 2
CRD_PAUSE: Final = 5.0
SAY_AGAIN: Final = 60.0


@dataclass(frozen=True)
class RestartPolicy:
    """Seconds and counts: how a process behaves whose watches or lists fail."""

    first_pause: float = 1.0
    longest_pause: float = 30.0
    most_failures: int = 8
    """Failures in a row after which the process ends (about two minutes with these pauses)."""
    healthy_after: float = 120.0
    """Watches that ran this long were healthy: failures are counted anew."""


class GaveUpError(Exception):
    """The operator cannot work; the message is the process's last line."""


class Operator:
    """One operator process; ``make_reconcile`` makes what is done for each tier."""

    def __init__(
        self,
        settings: Settings,
        client: HttpKubeClient,
        metrics: Metrics,
        make_reconcile: Callable[[Parts], Reconcile],
        *,
        restarts: RestartPolicy | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Build the parts; nothing runs yet."""
        rng = rng or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._restarts = restarts or RestartPolicy()
        self.store = Store(INFERENCE_TIER, label_value, TIER_LABEL)
        recorder = EventRecorder(client, metrics, lambda: datetime.now(UTC))
        pools = Pools(self.store)
        self._nodes = NodeReader(client, pools) if settings.pool_size == "nodes" else None
        self._autoscaler = make_autoscaler(
            settings, client, self.store, metrics, pools, lambda keys: self.queue.add(keys)
        )
        self._reconcile = make_reconcile(
            Parts(
                client,
                self.store,
                recorder,
                metrics,
                settings,
                lambda keys: self.queue.add(keys),
                self._autoscaler,
            )
        )
        self.queue = KeyQueue(
            self._reconcile_or_forget,
            metrics=metrics,
            rng=rng,
            timing=Timing(window=settings.window_seconds),
            workers=settings.parallel_reconciles,
            timeout=settings.reconcile_timeout_seconds,
        )
        self._resync = Resync(
            client,
            self.store,
            self.queue,
            metrics,
            namespaces=settings.namespaces,
            interval=settings.resync_seconds,
            rng=rng,
            on_crd_missing=lambda: self._watches.interrupt("the CustomResourceDefinition was removed"),
        )
        self._watches = Watches(
            self.store,
            self.queue.add,
            lambda refresh: client.connection(refresh=refresh),
            on_listed=self._resync.watch_listed,
            namespaces=settings.namespaces,
        )
        self._primed = asyncio.Event()
        self._waiting_for = ""

    def vitals(self) -> Vitals:
        """What health is judged from."""
        return Vitals(
            primed=self._primed.is_set(),
            watching=self._watches.running,
            resync_overdue=self._resync.overdue(),
            oldest_key_overdue=self.queue.oldest_overdue(),
            autoscaler_overdue=self._autoscaler.overdue(),
            resyncs_failed=self._resync.failed_in_a_row,
            resync_error=self._resync.last_error,
            waiting_for=self._waiting_for,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set. Raises GaveUpError when working is not possible."""
        app = application(
            self._metrics, alive=lambda: liveness(self.vitals()), ready=lambda: readiness(self.vitals())
        )
        host, port = self._settings.http_host, self._settings.http_port
        try:
            runner = await serve(app, host, port)
        except OSError as error:
            raise GaveUpError(
                f"cannot listen on {host or 'all addresses'}, port {port} (http_host, http_port): {error}"
            ) from error
        try:
            await self._lead()
            work = asyncio.create_task(self._work(), name="operator")
            stopped = asyncio.create_task(stop.wait(), name="stop")
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled() and (failure := work.exception()):
                raise failure
        finally:
            await runner.cleanup()

    async def _lead(self) -> None:
        """Waits for the right to write. A single replica has it at once."""

    async def _work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reconcile_when_primed(), name="reconciles")
                group.create_task(self._watch(), name="watches")
        except* GaveUpError as errors:
            raise errors.exceptions[0] from None

    async def _reconcile_when_primed(self) -> None:
        """No reconcile before the store is whole: a child that was not listed yet looks like one that is missing."""
        await self._primed.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name="queue")
            group.create_task(self._resync.run(), name="resync")
            group.create_task(self._autoscaler.run(), name="autoscaler")
            if self._nodes is not None:
                group.create_task(self._nodes.run(), name="nodes")

    async def _watch(self) -> None:
        """Primes the store and watches, again and again; raises GaveUpError after too many failures in a row."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self._prime()
                started = time.monotonic()
                await self._watches.run()
            except (KubeError, WatchesEndedError) as error:
                if time.monotonic() - started > self._restarts.healthy_after:
                    failures = 0
                failures += 1
                if failures > self._restarts.most_failures:
                    raise GaveUpError(
                        f"gave up after {failures} failures in a row, the last: {error}"
                    ) from error
                pause = min(self._restarts.first_pause * 2.0 ** (failures - 1), self._restarts.longest_pause)
                self._metrics.watch_restarts.inc()
                log.warning("watching failed and starts anew in %g s: %s", pause, error)
                await asyncio.sleep(pause)

    async def _prime(self) -> None:
        """Makes the store equal to the cluster; waits as long as the CRD is not installed."""
        said = -SAY_AGAIN
        while True:
            try:
                changed = await self._resync.compare()
                break
            except CrdMissingError:
                self._waiting_for = (
                    "waiting for the CustomResourceDefinition of InferenceTier: install the chart's CRDs, or pipe"
                    " `tierwright crd` to `kubectl apply -f -`"
                )
                if time.monotonic() - said >= SAY_AGAIN:
                    said = time.monotonic()
                    log.warning("%s", self._waiting_for)
                await asyncio.sleep(CRD_PAUSE)
        self._waiting_for = ""
        log.info("%d tiers and their objects are listed", len(self.store.tiers()))
        self.queue.add(changed if self._primed.is_set() else self._resync.all_keys())
        self._primed.set()

    async def _reconcile_or_forget(self, key: TierKey) -> Outcome:
        outcome = await self._reconcile(key)
        if self.store.tier(*key) is None:
            self.queue.forget(key)
            self._metrics.forget_tier(key)
        return outcome


async def run_operator(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status, after a last line that says why when it is not 0."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    metrics = Metrics(CollectorRegistry(), tierwright.__version__)
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    try:
        client = await HttpKubeClient.connect(
            settings.kubeconfig,
            timeout=settings.request_timeout_seconds,
            user_agent=f"tierwright/{tierwright.__version__}",
            metrics=metrics,
        )
    except CredentialsError as error:
        log.error("the operator ends: %s", error)
        return EXIT_NO_CREDENTIALS
    try:
        log.info(
            "tierwright %s serves %s",
            tierwright.__version__,
            ", ".join(settings.namespaces) or "all namespaces",
        )
        await Operator(settings, client, metrics, make_reconcile).run(stop)
    except (GaveUpError, SettingsError, OSError) as error:
        log.error("the operator ends: %s", error)
        return EXIT_FAILED
    except Exception:
        log.exception("the operator ends because of a bug")
        return EXIT_FAILED
    finally:
        await client.close()
    log.info("stopped")
    return EXIT_OK
