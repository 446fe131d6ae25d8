"""Runs the scheduler's steps against the clock and hands each request its tokens: the asyncio shell of one engine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from dev.engine_sim.metrics import EngineMetrics
from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.steps import Progress, Request

# A loop that falls further behind than this (a paused machine) starts a new timeline instead of catching up.
LONGEST_CATCH_UP = 0.25


class EngineStoppedError(Exception):
    """The engine ended while a request was in flight."""


class AdmissionRejectedError(Exception):
    """A queue limit refuses the request; `reason` is the limit's name."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server is at its limit {reason}; try again later or on another instance")
        self.reason = reason


@dataclass(frozen=True)
class Job:
    """A sequence to generate and what metrics say about it when it is finished."""

    request: Request
    finish_reason: str
    n: int
    max_tokens: int


class Engine:
    """Continuous batching in real time: each step lasts its planned seconds times `time_scale`."""

    def __init__(
        self, scheduler: Scheduler, metrics: EngineMetrics, time_scale: float, clock: Callable[[], float]
    ) -> None:
        self.scheduler = scheduler
        self.in_flight = 0
        self._metrics = metrics
        self._time_scale = time_scale
        self._clock = clock
        self._calls: dict[str, Call] = {}
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Run steps for ever; cancel to stop."""
        step_ends = self._clock()
        while True:
            now = self._clock()
            start = step_ends if 0 <= now - step_ends <= LONGEST_CATCH_UP else now
            plan = self.scheduler.plan(start)
            if plan is None:
                self._work.clear()
                await self._work.wait()
                step_ends = self._clock()
                continue
            step_ends = start + plan.seconds * self._time_scale
            await asyncio.sleep(max(0.0, step_ends - self._clock()))
            outcome = self.scheduler.complete(plan, step_ends)
            self._metrics.step(outcome)
            for progress in outcome.progress:
                self._calls[progress.request_id].receive(progress)

    def open(self, jobs: Sequence[Job]) -> "Call":
        """Queue the sequences of one HTTP request; AdmissionRejectedError when a queue limit forbids it.

        Use the result as a context manager: what is unfinished at its end is aborted.
        """
        reason = self.scheduler.rejection(len(jobs))
        if reason is not None:
            self._metrics.rejection(reason)
            raise AdmissionRejectedError(reason)
        call = Call(self, self._metrics, jobs)
        now = self._clock()
        for job in jobs:
            self.scheduler.add(job.request, now)
            self._calls[job.request.request_id] = call
        self.in_flight += len(jobs)
        self._idle.clear()
        self._work.set()
        return call

    def close(self, request_id: str) -> bool:
        """Forget a sequence; True when it was unfinished, and so is aborted."""
        self._calls.pop(request_id, None)
        self.in_flight -= 1
        if self.in_flight == 0:
            self._idle.set()
        return self.scheduler.abort(request_id)

    def stop(self) -> None:
        """Tell every request in flight that the engine has ended."""
        for call in set(self._calls.values()):
            call.receive(None)

    async def idle(self) -> None:
        """Return once no request is in flight."""
        await self._idle.wait()


class Call:
    """The sequences of one HTTP request while they are generated."""

    def __init__(self, engine: Engine, metrics: EngineMetrics, jobs: Sequence[Job]) -> None:
        self._engine = engine
        self._metrics = metrics
        self._jobs = {job.request.request_id: job for job in jobs}
        self._unfinished = set(self._jobs)
        self._received: asyncio.Queue[Progress | None] = asyncio.Queue()

    def __enter__(self) -> "Call":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for request_id in self._jobs:
            if self._engine.close(request_id):
                self._metrics.aborted()

    def receive(self, progress: Progress | None) -> None:
        """Take new tokens, or None for the end of the engine."""
        if progress is not None and progress.record is not None:
            job = self._jobs[progress.request_id]
            self._metrics.finished(progress.record, job.finish_reason, job.n, job.max_tokens)
        self._received.put_nowait(progress)

    async def progress(self) -> AsyncIterator[Progress]:
        """New tokens as steps produce them until every sequence is finished; EngineStoppedError when the engine ends."""
        while self._unfinished:
            progress = await self._received.get()
            if progress is None:
                raise EngineStoppedError("the engine stopped before the request was finished")
            if progress.record is not None:
                self._unfinished.discard(progress.request_id)
            yield progress
