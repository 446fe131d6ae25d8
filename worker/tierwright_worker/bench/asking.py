"""Sends requests to an engine, one at a time or so many that its slots stay full, and notes when each one's tokens came."""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tierwright_worker.engine.interface import FinishReason, SamplingParams
from tierwright_worker.engine.service import Engine, EngineRequest, Progress

# Longer than any step takes; an engine that is silent for so long hangs.
SILENCE_SECONDS = 300.0


class BenchError(Exception):
    """The benchmark cannot go on; the message says why."""


class StoppableEngine(Engine, Protocol):
    """An engine that can be ended, so that the next one has the device for itself."""

    def stop(self) -> None:
        """End it; what it holds gets no further word."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt as tokens. `max_tokens` bounds the answer; an end token or one of `stop` ends it earlier."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its tokens, and when they came. Seconds on the engine's clock.

    `first_tokens`: those that the first step gave, `first` when it ended. `steps`: steps that gave it tokens.
    """

    id: str
    tokens: tuple[int, ...]
    arrived: float
    first: float
    first_tokens: int
    last: float
    steps: int

    @property
    def decoded(self) -> int:
        """Tokens after those of the first step."""
        return len(self.tokens) - self.first_tokens

    @property
    def decode_seconds(self) -> float:
        """From the end of the first step to the last token."""
        return self.last - self.first

    @property
    def seconds(self) -> float:
        """From arrival to the last token, reading the prompt included."""
        return self.last - self.arrived


@dataclass(slots=True)
class _Open:
    """An answer that is not complete."""

    tokens: list[int] = field(default_factory=list)
    arrived: float = 0.0
    first: float = 0.0
    first_tokens: int = 0
    steps: int = 0


class Asker:
    """One engine's client. Greedy requests, whose end tokens are honoured."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self._open: dict[str, _Open] = {}

    def ask(self, request: Request) -> Answer:
        """One answer, nothing else running."""
        return next(self.keep_full([request], slots=1))

    def keep_full(
        self, requests: Sequence[Request], *, slots: int, load: Sequence[Request] = ()
    ) -> Iterator[Answer]:
        """All answers to `requests`, in the order in which they end, with `slots` requests in flight all the time.

        `load` is asked once the requests run out, so that the last of them have neighbours as well; those answers are
        thrown away, and cut off at the end. Each is asked again under another id when all have ended.

        Raises:
            BenchError: the engine refuses, fails or falls silent.
        """
        left = len(requests)
        wanted = {request.id for request in requests}
        feed = _feed(requests, load)
        for _ in range(slots):
            self._submit(next(feed, None))
        while left:
            ended = self._next()
            if ended.id in wanted:
                left -= 1
            if left:
                self._submit(next(feed, None))
            if ended.id in wanted:
                yield ended
        self._engine.cancel(tuple(self._open))
        self._open.clear()

    def _submit(self, request: Request | None) -> None:
        if request is None:
            return
        self._open[request.id] = _Open()
        params = SamplingParams(temperature=0.0, max_tokens=request.max_tokens, stop_token_ids=request.stop)
        verdict = self._engine.submit([EngineRequest(request.id, request.prompt, params)], self._inbox.put)
        if not verdict.admitted:
            raise BenchError(f"the engine refused {request.id}: {verdict.reason}")

    def _next(self) -> Answer:
        """The next answer to be complete."""
        while True:
            try:
                progress = self._inbox.get(timeout=SILENCE_SECONDS)
            except queue.Empty:
                raise BenchError(f"the engine said nothing for {SILENCE_SECONDS:g} s") from None
            open_answer = self._open.get(progress.id)
            if open_answer is None:
                continue  # cancelled; it was on its way
            if progress.finish in (FinishReason.ERROR, FinishReason.ABORT):
                raise BenchError(
                    f"{progress.id} ended with {progress.finish}: {self._engine.state().failure}"
                )
            _add(open_answer, progress)
            if progress.finish is not None:
                del self._open[progress.id]
                return Answer(
                    progress.id,
                    tuple(open_answer.tokens),
                    open_answer.arrived,
                    open_answer.first,
                    open_answer.first_tokens,
                    progress.at,
                    open_answer.steps,
                )


def _feed(requests: Sequence[Request], load: Sequence[Request]) -> Iterator[Request]:
    yield from requests
    turn = 0
    while load:
        for request in load:
            yield replace(request, id=f"{request.id}/{turn}")
        turn += 1


def _add(answer: _Open, progress: Progress) -> None:
    if progress.begun is not None:
        answer.arrived = progress.begun.arrived
    if not answer.tokens:
        answer.first, answer.first_tokens = progress.at, len(progress.tokens)
    answer.tokens += progress.tokens
    answer.steps += 1


Start = Callable[[], StoppableEngine]
"""Starts an engine that remembers nothing of earlier requests, on programs that are warm."""
