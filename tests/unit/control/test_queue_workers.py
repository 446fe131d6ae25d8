"""The workers of the queue: one run per tier, a bounded number at once, and no bug or hang stops the others."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from tierwright.control.outcome import Done, Failed, Outcome, RequeueAfter
from tierwright.control.queue import KeyQueue
from tierwright.control.schedule import Timing
from tierwright.kube.errors import ApiError, NetworkError
from tierwright.observe.store import TierKey
from tierwright.telemetry.metrics import Metrics

FAST = Timing(window=0.01, backoff_first=0.01, backoff_most=0.05)


class Running:
    """A queue that runs in the background of a test."""

    def __init__(
        self, reconcile: Callable[[TierKey], Awaitable[Outcome]], workers: int, timeout: float
    ) -> None:
        self.metrics = Metrics(CollectorRegistry(), "test")
        self.queue = KeyQueue(
            reconcile,
            metrics=self.metrics,
            rng=random.Random(1),
            timing=FAST,
            workers=workers,
            timeout=timeout,
        )

    async def __aenter__(self) -> "Running":
        self._task = asyncio.create_task(self.queue.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    def results(self, result: str) -> float:
        return (
            self.metrics.registry.get_sample_value("tierwright_reconciles_total", {"result": result}) or 0.0
        )


def running(
    reconcile: Callable[[TierKey], Awaitable[Outcome]], workers: int = 4, timeout: float = 5.0
) -> Running:
    return Running(reconcile, workers, timeout)


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - any state, not only one that has an event
            await asyncio.sleep(0.005)


async def test_parallel_runs_are_bounded_and_no_key_runs_twice_at_once() -> None:
    now_running: Counter[TierKey] = Counter()
    most = 0
    done: Counter[TierKey] = Counter()

    async def reconcile(key: TierKey) -> Outcome:
        nonlocal most
        now_running[key] += 1
        assert now_running[key] == 1
        most = max(most, sum(now_running.values()))
        await asyncio.sleep(0.01)
        now_running[key] -= 1
        done[key] += 1
        return Done()

    keys = [("n", str(number)) for number in range(20)]
    async with running(reconcile, workers=3) as test:
        for _ in range(5):
            test.queue.add(keys)
            await asyncio.sleep(0.013)
        await soon(lambda: len(done) == len(keys) and test.queue.depth() == 0)
    assert most == 3
    assert test.results("failed") == 0


@pytest.mark.parametrize("error", [RuntimeError("bug"), NetworkError("cut"), ApiError(503, "x", "busy")])
async def test_a_failure_is_tried_again_until_it_succeeds(error: Exception) -> None:
    tries = 0

    async def reconcile(_: TierKey) -> Outcome:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise error
        return Done()

    async with running(reconcile) as test:
        test.queue.add([("n", "a")])
        await soon(lambda: test.results("done") == 1)
    assert tries == 4
    assert test.results("failed") == 3


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_an_error_that_time_does_not_mend_is_not_tried_again(status: int) -> None:
    tries = 0

    async def reconcile(_: TierKey) -> Outcome:
        nonlocal tries
        tries += 1
        raise ApiError(status, "x", "no")

    async with running(reconcile) as test:
        test.queue.add([("n", "a")])
        await soon(lambda: test.results("done") == 1)
        assert test.queue.depth() == 0
    assert tries == 1


async def test_a_reconcile_that_hangs_is_given_up_and_others_go_on() -> None:
    async def reconcile(key: TierKey) -> Outcome:
        if key == ("n", "hangs"):
            await asyncio.Event().wait()
        return Done()

    async with running(reconcile, workers=1, timeout=0.05) as test:
        test.queue.add([("n", "hangs")])
        await soon(lambda: test.results("failed") >= 1)
        test.queue.add([("n", "fine")])
        await soon(lambda: test.results("done") == 1)


async def test_a_returned_failure_and_a_requeue_come_back() -> None:
    outcomes: list[Outcome] = [Failed(RuntimeError("x")), RequeueAfter(0.02), Done()]

    async def reconcile(_: TierKey) -> Outcome:
        return outcomes.pop(0)

    async with running(reconcile) as test:
        test.queue.add([("n", "a")])
        await soon(lambda: not outcomes)
        await soon(lambda: test.results("done") == 1)
    assert test.results("failed") == 1
    assert test.results("requeued") == 1
