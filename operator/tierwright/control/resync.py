"""Compares the store with full lists: once before the watches start, then every few minutes.

That is what makes a missed event, a ghost or an event out of order harmless, and it is the moment at which tiers that
wait for another person (a role, a quota, a kind) are tried again.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tierwright.control.kinds import WATCHED, Watched
from tierwright.control.queue import KeyQueue
from tierwright.kube.errors import ApiError, KubeError
from tierwright.kube.verbs import KubeClient
from tierwright.observe.slim import slim
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

PAGE: Final = 200
"""Objects per page: what a page takes in memory while it is read is not given back to the system."""
SPREAD_SHARE: Final = 0.1
MAX_SPREAD: Final = 30.0
"""A resync hands its tiers to the queue over this share of its interval, and this many seconds at most."""
LISTED: Final = 3.0
"""Seconds from a watch's list to the comparison: by then the other watches, which often fail together, have theirs."""
LISTED_AGAIN: Final = 20.0
"""Seconds until such a comparison that failed is tried again."""


class CrdMissingError(Exception):
    """The kind InferenceTier is not installed in the cluster."""


class Resync:
    """Keeps the store equal to the cluster and every tier looked at; ``namespaces`` empty means all of them."""

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        queue: KeyQueue,
        metrics: Metrics,
        *,
        namespaces: Sequence[str],
        interval: float,
        rng: random.Random,
        on_crd_missing: Callable[[], None] = lambda: None,
        watched: Sequence[Watched] = WATCHED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``interval`` is in seconds; ``on_crd_missing`` is told when a resync finds that the CRD was removed."""
        self._client = client
        self._store = store
        self._queue = queue
        self._metrics = metrics
        self._namespaces: Sequence[str | None] = tuple(namespaces) or (None,)
        self._interval = interval
        self._rng = rng
        self._on_crd_missing = on_crd_missing
        self._watched = watched
        self._clock = clock
        self.last_attempt = clock()
        self.failed_in_a_row = 0
        self.last_error = ""
        self._listed = asyncio.Event()

    def watch_listed(self) -> None:
        """A watch began with a list: what was deleted before, and after the store knew it, will never be told."""
        self._listed.set()

    async def compare(self) -> set[TierKey]:
        """Makes the store equal to the cluster; returns the tiers for which that changed anything.

        Raises CrdMissingError, or KubeError of the first list that failed: the kinds before it are compared then.
        """
        changed: set[TierKey] = set()
        for each in self._watched:
            for namespace in self._namespaces:
                changed |= await self._compare_kind(each, namespace)
        for kind, count in self._store.counts().items():
            self._metrics.store_objects.labels(kind).set(count)
        return changed

    async def _compare_kind(self, watched: Watched, namespace: str | None) -> set[TierKey]:
        mark = self._store.mark()
        try:
            objects = await self._client.list(
                watched.kind,
                namespace,
                label_selector=watched.label_selector,
                limit=PAGE,
                keep=partial(slim, watched.kind),
            )
        except ApiError as error:
            if error.status == 404 and watched.kind == self._store.tier_kind:
                self._queue.add(self._store.replace_all(watched.kind, (), mark=mark))
                raise CrdMissingError(str(error)) from error
            raise
        before = self._store.mark()
        changed = self._store.replace_all(watched.kind, objects, mark=mark, namespace=namespace)
        self._metrics.resync_repairs.labels(watched.kind.kind).inc(self._store.mark() - before)
        return changed

    async def once(self) -> None:
        """One resync: compare, then hand every tier to the queue, the changed ones at once."""
        try:
            changed = await self.compare()
        except CrdMissingError:
            self._on_crd_missing()
            return
        except KubeError as error:
            self._metrics.resyncs.labels("failed").inc()
            self.failed_in_a_row += 1
            self.last_error = str(error)
            log.warning("the resync failed and is tried again in %g s: %s", self._interval, error)
            return
        finally:
            self.last_attempt = self._clock()
        self.failed_in_a_row = 0
        self._metrics.resyncs.labels("ok").inc()
        self._metrics.resync_time.set(time.time())
        self._queue.add(changed)
        spread = min(self._interval * SPREAD_SHARE, MAX_SPREAD)
        for key in self.all_keys() - changed:
            self._queue.add_after(key, self._rng.random() * spread)

    def all_keys(self) -> set[TierKey]:
        """All tiers."""
        return {(tier["metadata"]["namespace"], tier["metadata"]["name"]) for tier in self._store.tiers()}

    async def run(self) -> None:
        """Resync every interval, and compare after each list of a watch, until cancelled."""
        # The store was primed just now, maybe hours after the process began: it waits as long as there is no CRD.
        self.last_attempt = self._clock()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._each_interval(), name="resync each interval")
            group.create_task(self._after_lists(), name="compare after lists")

    async def _each_interval(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.once()

    async def _after_lists(self) -> None:
        """Finds what was deleted while no watch told; only tiers for which that changes anything are looked at."""
        while True:
            await self._listed.wait()
            await asyncio.sleep(LISTED)
            self._listed.clear()
            try:
                self._queue.add(await self.compare())
            except CrdMissingError:
                self._on_crd_missing()
            except KubeError as error:
                log.warning(
                    "comparing after a watch began anew failed, in %g s again: %s", LISTED_AGAIN, error
                )
                await asyncio.sleep(LISTED_AGAIN)
                self._listed.set()

    def overdue(self) -> float:
        """Seconds since the last resync ended, well or not, beyond the interval; at most 0 when all is well."""
        return self._clock() - self.last_attempt - self._interval
