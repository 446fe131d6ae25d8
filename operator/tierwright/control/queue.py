"""Runs reconciles: a fixed set of workers takes due keys from the schedule, one run per key at a time."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable

from tierwright.control.outcome import Done, Failed, Outcome, RequeueAfter
from tierwright.control.schedule import KeySchedule, Timing
from tierwright.kube.errors import KubeError, Verdict
from tierwright.observe.store import TierKey
from tierwright.telemetry.logs import about_tier
from tierwright.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

Reconcile = Callable[[TierKey], Awaitable[Outcome]]


class KeyQueue:
    """Dirty keys and the workers that reconcile them.

    ``timeout`` in seconds bounds one reconcile. The workers are tasks of ``run`` made once, and a bug in a reconcile
    costs its own key a backoff and nobody else anything.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        metrics: Metrics,
        rng: random.Random,
        timing: Timing | None = None,
        workers: int = 16,
        timeout: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` counts seconds and never goes back."""
        self._reconcile = reconcile
        self._metrics = metrics
        self._schedule = KeySchedule(timing or Timing(), rng)
        self._workers = workers
        self._timeout = timeout
        self._clock = clock
        self._wake = asyncio.Event()
        self._handoff: asyncio.Queue[TierKey] = asyncio.Queue()
        self._free = asyncio.Semaphore(workers)
        metrics.watch_queue(self._schedule.depth, self.oldest_overdue)

    def add(self, keys: Iterable[TierKey]) -> None:
        """These tiers must be looked at."""
        now = self._clock()
        for key in keys:
            self._schedule.add(key, now)
        self._wake.set()

    def add_after(self, key: TierKey, seconds: float) -> None:
        """This tier must be looked at, but not before ``seconds`` unless something else asks earlier."""
        self._schedule.add(key, self._clock(), seconds)
        self._wake.set()

    def forget(self, key: TierKey) -> None:
        """This tier is gone."""
        self._schedule.forget(key)

    def depth(self) -> int:
        """How many keys wait."""
        return self._schedule.depth()

    def oldest_overdue(self) -> float:
        """Seconds by which the longest waiting key is late."""
        return self._schedule.oldest_overdue(self._clock())

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"reconcile worker {number}")
            await self._dispatch()

    async def _dispatch(self) -> None:
        while True:
            await self._free.acquire()
            self._handoff.put_nowait(await self._next_key())

    async def _next_key(self) -> TierKey:
        while True:
            self._wake.clear()
            now = self._clock()
            key = self._schedule.take(now)
            if key is not None:
                return key
            next_at = self._schedule.next_at()
            try:
                async with asyncio.timeout(None if next_at is None else max(0.0, next_at - now)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _work(self) -> None:
        while True:
            key = await self._handoff.get()
            started = time.monotonic()
            with about_tier(*key):
                outcome = await self._run_one(key)
            self._metrics.reconcile_seconds.observe(time.monotonic() - started)
            self._metrics.reconciles.labels(_label_of(outcome)).inc()
            self._schedule.finish(key, outcome, self._clock())
            self._free.release()
            self._wake.set()

    async def _run_one(self, key: TierKey) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._reconcile(key)
        except TimeoutError as error:
            log.error("the reconcile took longer than %g s and was given up", self._timeout)
            return Failed(error)
        except KubeError as error:
            log.warning("%s", error)
            return Failed(error, error.retry_after) if error.verdict is Verdict.RETRY else Done()
        except Exception as error:
            log.exception("the reconcile failed because of a bug; it is tried again")
            return Failed(error)


def _label_of(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "done"
        case RequeueAfter():
            return "requeued"
        case Failed():
            return "failed"
