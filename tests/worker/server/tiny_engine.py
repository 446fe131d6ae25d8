"""A deterministic engine of one thread for tests of the server: real queue, ends and prompt cache, but no model.

It answers with the tokens that a function makes of the prompt, at most `per_step` of them in a step.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.worker.server.tiny_model import END
from tierwright_worker.engine.interface import (
    Admission,
    CacheSettings,
    FinishReason,
    QueueLimits,
    RequestId,
    TokenLogprobs,
)
from tierwright_worker.engine.policies.admission import admit
from tierwright_worker.engine.policies.breakpoints import (
    SHORT_SECONDS,
    Breakpoint,
    CacheUsage,
    cache_usage,
    page_lifetimes,
)
from tierwright_worker.engine.policies.finishing import keep
from tierwright_worker.engine.policies.prompt_cache import PromptCacheIndex, cache_salt, page_keys
from tierwright_worker.engine.service import (
    Beginning,
    EngineFacts,
    EngineRequest,
    EngineState,
    IterationRecord,
    Progress,
    SpeculationFacts,
)

PAGE = 16
Listener = Callable[[Progress], None]


@dataclass
class _Sequence:
    request: EngineRequest
    listener: Listener
    arrived: float
    answer: Sequence[int]
    generated: int = 0


@dataclass
class TinyEngine:
    """Give `answer` to choose what is said; set `step_seconds` high to have time for what a test wants to do."""

    answer: Callable[[EngineRequest], Sequence[int]]
    step_seconds: float = 0.0
    per_step: int = 1
    slots: int = 4
    limits: QueueLimits = field(default_factory=lambda: QueueLimits(16))
    max_length: int = 512
    lossy: str | None = None
    cancelled: list[RequestId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = EngineFacts(
            self.max_length,
            self.slots,
            frozenset({END}),
            {"block_size": str(PAGE)},
            SpeculationFacts("ngram", 3, None, self.lossy),
            row_exact=True,
            agreement=1.0,
            cache_pages={"device": 64, "host": 0},
        )
        self.cache = PromptCacheIndex(CacheSettings(PAGE, 64, 0, SHORT_SECONDS))
        self.dies_with: str | None = None
        self._failure: str | None = None
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._stopped = False
        self._observer: Callable[[IterationRecord], None] = lambda _: None
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stopped = True
        self._work.set()
        self._thread.join(10)

    def state(self) -> EngineState:
        """What is true now."""
        with self._lock:
            running, waiting = len(self._running), len(self._waiting)
        return EngineState(
            running,
            waiting,
            running / self.slots,
            "pays",
            0.5,
            self._failure,
            {3: running},
            {str(tier): pages for tier, pages in self.cache.pages.items()},
            7 if self.lossy else 0,
        )

    def submit(self, requests: Sequence[EngineRequest], listener: Listener) -> Admission:
        """Queue all or none; a request that finds a free slot does not wait."""
        now = time.monotonic()
        with self._lock:
            free = self.slots - len(self._running) - len(self._waiting)
            tokens = sum(len(sequence.request.prompt) for sequence in self._waiting)
            for request in requests[max(0, free) :]:
                waiting = len(self._waiting) + requests.index(request) - max(0, free)
                admission = admit(
                    len(request.prompt),
                    waiting_requests=max(0, waiting),
                    waiting_tokens=tokens,
                    limits=self.limits,
                    tokens_per_second=100.0,
                )
                if not admission.admitted:
                    return admission
            self._waiting += [_Sequence(request, listener, now, self.answer(request)) for request in requests]
        self._work.set()
        return Admission(True, "admitted")

    def cancel(self, ids: Sequence[RequestId]) -> None:
        """Forget sequences."""
        with self._lock:
            self.cancelled += ids
            self._waiting = [sequence for sequence in self._waiting if sequence.request.id not in ids]
            self._running = [sequence for sequence in self._running if sequence.request.id not in ids]

    def observe(self, observer: Callable[[IterationRecord], None]) -> None:
        """Call after each step."""
        self._observer = observer

    def _loop(self) -> None:
        while not self._stopped:
            if not self._waiting and not self._running and self.dies_with is None:
                self._work.wait(0.05)
                self._work.clear()
                continue
            if self.dies_with is not None:
                self._die(self.dies_with)
                return
            self._step()
            time.sleep(self.step_seconds)

    def _die(self, reason: str) -> None:
        self._failure = reason
        with self._lock:
            everyone = [*self._running, *self._waiting]
            self._running, self._waiting = [], []
        for sequence in everyone:
            sequence.listener(Progress(sequence.request.id, (), time.monotonic(), finish=FinishReason.ERROR))

    def _step(self) -> None:
        now = time.monotonic()
        with self._lock:
            while self._waiting and len(self._running) < self.slots:
                self._running.append(self._waiting.pop(0))
            running = list(self._running)
        progress = [(sequence.listener, self._advance(sequence, now)) for sequence in running]
        with self._lock:
            ended = {item.id for _, item in progress if item.finish is not None}
            alive = {sequence.request.id for sequence in self._running}
            self._running = [sequence for sequence in self._running if sequence.request.id not in ended]
        self._observer(
            IterationRecord(
                prefill_tokens=sum(
                    len(sequence.request.prompt) for sequence in running if not sequence.generated
                ),
                generated_tokens=sum(len(item.tokens) for _, item in progress),
                drafted=(3,) * len(running),
                accepted=(2,) * len(running),
                bent=len(running) if self.lossy else 0,
                cache_queries=7,
                cache_hits={"device": 5},
                cache_evictions={"ttl": 1},
            )
        )
        for listener, item in progress:
            if item.id in alive:
                listener(item)

    def _advance(self, sequence: _Sequence, now: float) -> Progress:
        request = sequence.request
        begun = (
            None if sequence.generated else Beginning(sequence.arrived, now, self._read_prompt(request, now))
        )
        start = sequence.generated
        step = [*sequence.answer, END][start : start + self.per_step]
        kept = keep(step, already=start, params=request.params, end_tokens=self.facts.end_tokens)
        sequence.generated += len(kept.tokens)
        wanted = request.params.logprobs
        return Progress(
            request.id,
            kept.tokens,
            time.monotonic(),
            () if wanted is None else tuple(_logprobs(token, wanted) for token in kept.tokens),
            begun,
            kept.reason,
            kept.ended_by,
            1 if self.lossy else 0,
        )

    def _read_prompt(self, request: EngineRequest, now: float) -> CacheUsage:
        keys = page_keys(request.prompt, page_tokens=PAGE, salt=cache_salt("tiny", request.tenant))
        points = request.breakpoints
        if points is None:
            points = (Breakpoint(len(request.prompt), SHORT_SECONDS),)
        lifetimes = page_lifetimes(len(request.prompt), PAGE, points)
        found = self.cache.use(keys, now=now).tokens
        self.cache.insert(keys[: len(lifetimes)], now=now, lifetimes=lifetimes)
        return cache_usage(len(request.prompt), PAGE, found, lifetimes)


def _logprobs(token: int, alternatives: int) -> TokenLogprobs:
    best = ((token, -0.25), (65, -1.5), (66, -2.5))
    return TokenLogprobs(token, -0.25, best[:alternatives])
