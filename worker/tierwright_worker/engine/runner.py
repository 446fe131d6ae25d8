"""Drives an engine's iterations in a thread of its own, and is the Engine that the server talks to.

The server's calls only put things into an inbox, which the thread empties between two iterations: no call waits for a step.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tierwright_worker.engine.batch import Batch
from tierwright_worker.engine.interface import Admission, FinishReason, QueueLimits, RequestId
from tierwright_worker.engine.policies.admission import admit
from tierwright_worker.engine.policies.breakpoints import CacheUsage
from tierwright_worker.engine.sequence import Output, Request
from tierwright_worker.engine.service import (
    ENGINE_DEAD,
    Beginning,
    EngineFacts,
    EngineRequest,
    EngineState,
    IterationRecord,
    Progress,
)

ProgressListener = Callable[[Progress], None]

# How often an idle thread looks up; a request wakes it at once.
IDLE_SECONDS = 0.5
# Rates follow the last ten or so observations.
RATE_WEIGHT = 0.1
# Of the reasons for the draft lengths in one step, the one that is shown: the first of these that applies.
SPECULATION_ORDER = ("pays", "probe", "batch", "plain")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the batch showed when it last stood still; other threads read this, never the batch."""

    cache_usage: float = 0.0
    reasons: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)
    cache_levels: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _Held:
    """One request from its arrival to its end. `scheduled` is set when it has a slot."""

    request: EngineRequest
    listener: ProgressListener
    arrived: float
    scheduled: float | None = None
    begun: bool = False


class EngineRunner:
    """A thread around a Batch. Once an iteration fails, everything held ends with ERROR and `state().failure` says why."""

    def __init__(
        self,
        batch: Batch,
        facts: EngineFacts,
        limits: QueueLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits` decide on admission; the batch's own must not be stricter. Call `start` next."""
        self._batch = batch
        self._seen = _Seen(cache_levels=dict(batch.cache_levels))
        self._facts = facts
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._held: dict[RequestId, _Held] = {}
        self._arrivals: list[EngineRequest] = []
        self._cancels: list[RequestId] = []
        self._failure: str | None = None
        # What ended the engine; a WorkerError among them names the process's exit status.
        self.error: BaseException | None = None
        self._prefill_rate: float | None = None
        self._acceptance: float | None = None
        self._bent = 0
        self._observer: Callable[[IterationRecord], None] = lambda _: None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the iteration that runs; what is held gets no further word."""
        self._stopping = True
        self._wake.set()
        self._thread.join()

    @property
    def facts(self) -> EngineFacts:
        """What does not change."""
        return self._facts

    def state(self) -> EngineState:
        """What is true now; the batch's numbers are those at the end of its last iteration."""
        with self._lock:
            running = sum(held.scheduled is not None for held in self._held.values())
            waiting = len(self._held) - running
        seen = self._seen
        shown = next((reason for reason in SPECULATION_ORDER if seen.reasons.get(reason)), "off")
        return EngineState(
            running=running,
            waiting=waiting,
            cache_usage=seen.cache_usage,
            speculation=shown,
            acceptance=self._acceptance,
            failure=self._failure,
            drafting=seen.lengths,
            cache_pages=seen.cache_levels,
            bent_tokens=self._bent,
        )

    def submit(self, requests: Sequence[EngineRequest], listener: ProgressListener) -> Admission:
        """Queue all of them or none; an engine that has died admits nobody."""
        now = self._clock()
        with self._lock:
            if self._failure is not None:
                return Admission(False, ENGINE_DEAD, 1)
            waiting = [held.request for held in self._held.values() if held.scheduled is None]
            # A request that finds a slot free waits for the next iteration alone, so it does not count.
            free = self._facts.slots - (len(self._held) - len(waiting))
            for request in requests:
                verdict = self._admit(request, waiting[free:])
                if not verdict.admitted and len(waiting) >= free:
                    return verdict
                waiting.append(request)
            for request in requests:
                self._held[request.id] = _Held(request, listener, now)
                self._arrivals.append(request)
        self._wake.set()
        return Admission(True, "admitted")

    def cancel(self, ids: Sequence[RequestId]) -> None:
        """Forget requests: no listener is called again, and the slots are free for the next iteration."""
        with self._lock:
            for request_id in ids:
                if self._held.pop(request_id, None) is not None:
                    self._cancels.append(request_id)
        self._wake.set()

    def observe(self, observer: Callable[[IterationRecord], None]) -> None:
        """Call `observer` after each iteration, in the engine's thread."""
        self._observer = observer

    def _admit(self, request: EngineRequest, waiting: Sequence[EngineRequest]) -> Admission:
        return admit(
            len(request.prompt),
            waiting_requests=len(waiting),
            waiting_tokens=sum(len(other.prompt) for other in waiting),
            limits=self._limits,
            tokens_per_second=self._prefill_rate,
        )

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._empty_inbox()
                self._seen = self._look()
                if self._batch.busy:
                    self._iterate()
                else:
                    self._wake.wait(IDLE_SECONDS)
                    self._wake.clear()
        except BaseException as error:
            # Whatever it was, a panic in compiled code included, the state of the device is unknown now: the process must
            # end, and say why.
            self.error = error
            self._die(f"{type(error).__name__}: {error}".splitlines()[0])

    def _look(self) -> _Seen:
        """The batch's numbers between two iterations; in the engine's thread, for they change while one runs."""
        batch = self._batch
        return _Seen(
            cache_usage=batch.cache_usage,
            reasons=dict(batch.speculation.reasons),
            # With the last request its draft length goes as well; nobody asks for another.
            lengths=dict(batch.speculation.lengths) if batch.running else {},
            cache_levels=dict(batch.cache_levels),
        )

    def _empty_inbox(self) -> None:
        with self._lock:
            arrivals, self._arrivals = self._arrivals, []
            cancels, self._cancels = self._cancels, []
        gone = set(cancels)
        for request in arrivals:
            if request.id in gone:
                continue
            verdict = self._batch.submit(
                Request(
                    request.id,
                    request.prompt,
                    request.params,
                    request.priority,
                    request.tenant,
                    request.breakpoints,
                    request.constraint,
                )
            )
            if not verdict.admitted:
                self._refuse(request.id)
        for request_id in cancels:
            self._batch.cancel(request_id)

    def _refuse(self, request_id: RequestId) -> None:
        """End a request that the batch does not take after all; the others go on."""
        with self._lock:
            held = self._held.pop(request_id, None)
        if held is not None:
            held.listener(Progress(request_id, (), self._clock(), finish=FinishReason.ERROR))

    def _iterate(self) -> None:
        started = self._clock()
        before = self._batch.counters.prefill_tokens
        outputs = self._batch.iterate(started)
        ended = self._clock()
        self._seen = self._look()
        read = self._batch.counters.prefill_tokens - before
        if read and ended > started:
            self._prefill_rate = _follow(self._prefill_rate, read / (ended - started))
        drafting = [output for output in outputs if output.drafted]
        if drafting:
            share = sum(output.accepted for output in drafting) / sum(output.drafted for output in drafting)
            self._acceptance = _follow(self._acceptance, share)
        bent = sum(output.bent for output in drafting)
        self._bent += bent
        told = self._progress(outputs, started, ended)
        events = self._batch.cache_events()
        self._observer(
            IterationRecord(
                prefill_tokens=read,
                generated_tokens=sum(len(output.tokens) for output in outputs),
                drafted=tuple(output.drafted for output in drafting),
                accepted=tuple(output.accepted for output in drafting),
                bent=bent,
                cache_queries=events.queries,
                cache_hits=events.hits,
                cache_evictions=events.evictions,
            )
        )
        for listener, progress in told:
            listener(progress)

    def _progress(
        self, outputs: Sequence[Output], started: float, ended: float
    ) -> list[tuple[ProgressListener, Progress]]:
        """What to tell whom; those who were cancelled meanwhile hear nothing."""
        told = []
        with self._lock:
            outcome = {output.id: output for output in outputs}
            for request_id, held in list(self._held.items()):
                output = outcome.get(request_id)
                if held.scheduled is None and (output or self._batch.holds_slot(request_id)):
                    held.scheduled = started
                if output is None:
                    continue
                told.append((held.listener, _told(held, output, ended)))
                held.begun = True
                if output.finished is not None:
                    del self._held[request_id]
        return told

    def _die(self, reason: str) -> None:
        with self._lock:
            self._failure = reason
            held, self._held = self._held, {}
        for request_id, one in held.items():
            one.listener(Progress(request_id, (), self._clock(), finish=FinishReason.ERROR))


def _told(held: _Held, output: Output, ended: float) -> Progress:
    begun = None
    if not held.begun:
        scheduled = held.arrived if held.scheduled is None else held.scheduled
        cache = output.cache or CacheUsage(0, 0, 0, len(held.request.prompt))
        begun = Beginning(held.arrived, scheduled, cache)
    return Progress(
        id=output.id,
        tokens=output.tokens,
        at=ended,
        logprobs=output.logprobs,
        begun=begun,
        finish=output.finished,
        ended_by=output.ended_by,
        bent=output.bent,
    )


def _follow(before: float | None, seen: float) -> float:
    return seen if before is None else before + RATE_WEIGHT * (seen - before)
