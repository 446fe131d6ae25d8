"""Runs one request in the engine, and turns the tokens that come into text, ends and counts."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from tierwright_worker.engine.grammar import Grammar
from tierwright_worker.engine.interface import FinishReason, RequestId, SamplingParams, TokenLogprobs
from tierwright_worker.engine.policies.breakpoints import CacheUsage
from tierwright_worker.engine.policies.detokenizer import IncrementalDecoder
from tierwright_worker.engine.policies.stop_strings import StopMatcher
from tierwright_worker.engine.policies.tool_calls import ForcedCallReader, ToolCallReader
from tierwright_worker.engine.service import (
    ENGINE_DEAD,
    Beginning,
    Engine,
    EngineFacts,
    EngineRequest,
    Progress,
)
from tierwright_worker.server.asked import Asked
from tierwright_worker.server.errors import ApiError, bad_request
from tierwright_worker.server.prompting import ReadPrompt
from tierwright_worker.server.vocabulary import Vocabulary

NOTHING_CACHED = CacheUsage(0, 0, 0, 0)


@dataclass(frozen=True)
class ShownToken:
    """One generated token with its text and, where asked for, its log-probabilities."""

    token: int
    text: str
    logprobs: TokenLogprobs | None


@dataclass(frozen=True)
class MadeCall:
    """A call of a tool. `place` counts the calls of an answer; `id` is unique, and in the form that the template takes."""

    place: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Delta:
    """What one step added to one choice. `stop`: the stop string or stop token that ended it.

    `cut`: the answer was ended by the context, not by its own max_tokens. `calls` come behind `text`.
    """

    choice: int
    text: str
    tokens: tuple[ShownToken, ...]
    at: float
    begun: Beginning | None = None
    finish: FinishReason | None = None
    stop: str | int | None = None
    cut: bool = False
    calls: tuple[MadeCall, ...] = ()


class GenerationFailedError(Exception):
    """The engine gave a sequence up; the message says why as far as is known."""


class Choice:
    """One answer while it grows: its text so far decoded, what may begin a stop string held back."""

    def __init__(
        self, index: int, prompt: ReadPrompt, request: EngineRequest, asked: Asked, vocabulary: Vocabulary
    ) -> None:
        self.index = index
        self.prompt = prompt
        self.request = request
        self.begun: Beginning | None = None
        self.first_token = 0.0
        self.last_token = 0.0
        self.generated = 0
        self.bent = 0
        self.siblings = asked.n
        self.finish: FinishReason | None = None
        self.calls = 0
        self._reader, self._ids = vocabulary.reader(asked), vocabulary.call_id
        table = vocabulary.shown(asked)
        self._cut = asked.max_tokens is None or request.params.max_tokens < asked.max_tokens
        self._decoder = IncrementalDecoder(lambda token: table[token] if token < len(table) else b"")
        self._matcher = StopMatcher(asked.stop, asked.include_stop)

    @property
    def cache(self) -> CacheUsage:
        """What the prompt cache had, once that is known."""
        return self.begun.cache if self.begun else NOTHING_CACHED

    def take(self, progress: Progress) -> Delta:
        """Add a step's tokens; those behind the end of a stop string are not part of the answer."""
        self.begun = self.begun or progress.begun
        text, shown = "", []
        calls: list[MadeCall] = []
        stop: str | int | None = progress.ended_by
        finish = progress.finish
        for place, token in enumerate(progress.tokens):
            hidden = token == progress.ended_by and place == len(progress.tokens) - 1
            piece = "" if hidden else self._decoder.push(token)
            logprobs = progress.logprobs[place] if progress.logprobs else None
            shown.append(ShownToken(token, piece, logprobs))
            released = self._matcher.push(piece)
            text += released.text
            if released.stop is not None:
                finish, stop = FinishReason.STOP, released.stop
                break
        if finish is not None and not isinstance(stop, str):
            released = self._matcher.push(self._decoder.flush())
            text += released.text + self._matcher.flush()
        if self._reader is not None:
            text, calls = self._read(self._reader, text, ended=finish is not None)
        if self.generated == 0:
            self.first_token = progress.at
        self.generated += len(shown)
        self.bent += min(progress.bent, len(shown))
        self.last_token = progress.at
        self.finish = finish
        cut = finish is FinishReason.LENGTH and self._cut
        # The end token of the model itself is no stop that anybody asked for.
        asked_for = isinstance(stop, str) or stop in self.request.params.stop_token_ids
        return Delta(
            self.index,
            text,
            tuple(shown),
            progress.at,
            progress.begun,
            finish,
            stop if asked_for and finish is FinishReason.STOP else None,
            cut,
            tuple(calls),
        )

    def _read(
        self, reader: ToolCallReader | ForcedCallReader, text: str, *, ended: bool
    ) -> tuple[str, list[MadeCall]]:
        """The text that is shown, and the calls, each with its id."""
        found = reader.push(text) + (reader.flush() if ended else [])
        made = []
        for call in (call for read in found for call in read.calls):
            made.append(
                MadeCall(
                    self.calls,
                    call.id or self._ids(f"{self.request.id}-{self.calls}"),
                    call.name,
                    call.arguments,
                )
            )
            self.calls += 1
        return "".join(read.text for read in found), made


class Record(Protocol):
    """What is told of each answer, for metrics."""

    def delta(self, choice: Choice, delta: Delta, before: float) -> None:
        """An answer grew; `before` is when it did so last, 0 for its first tokens."""
        ...

    def abandoned(self, choice: Choice) -> None:
        """An answer was given up by the client or the server."""
        ...

    def failed(self, choice: Choice) -> None:
        """An answer was given up by the engine."""
        ...


class Generation:
    """All choices of one request; use it as a context, so that nothing goes on in the engine once the client is gone."""

    def __init__(self, engine: Engine, choices: Sequence[Choice], record: Record) -> None:
        self.choices = tuple(choices)
        self.stopped: str | None = None
        self._record = record
        self._engine = engine
        self._by_id: dict[RequestId, Choice] = {choice.request.id: choice for choice in choices}
        self._arrived: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Generation":
        """Queue all choices; RejectedError where the queue is full, ApiError 500 where the engine has just died."""
        admission = self._engine.submit([choice.request for choice in self.choices], self._listen)
        if admission.reason == ENGINE_DEAD:
            raise ApiError(500, f"the engine is dead: {self._engine.state().failure}")
        if not admission.admitted:
            raise RejectedError(admission.reason, admission.retry_after or 1)
        return self

    def __exit__(self, *_: object) -> None:
        unfinished = [choice for choice in self.choices if choice.finish is None]
        if unfinished:
            self._engine.cancel([choice.request.id for choice in unfinished])
        for choice in unfinished:
            self._record.abandoned(choice)

    def stop(self, reason: str) -> None:
        """Give up: `deltas` ends with GenerationFailedError."""
        self.stopped = reason
        self._arrived.put_nowait(None)

    async def deltas(self) -> AsyncIterator[Delta]:
        """What comes, until every choice has its end."""
        left = len(self.choices)
        while left:
            progress = await self._arrived.get()
            if progress is None:
                raise GenerationFailedError(self.stopped or "stopped")
            choice = self._by_id[progress.id]
            if choice.finish is not None:
                continue
            if progress.finish in (FinishReason.ERROR, FinishReason.ABORT):
                choice.finish = progress.finish
                self._record.failed(choice)
                raise GenerationFailedError(self._engine.state().failure or "the engine gave this request up")
            before = choice.last_token
            delta = choice.take(progress)
            self._record.delta(choice, delta, before)
            if delta.finish is not None:
                left -= 1
                if progress.finish is None:
                    # Ended by its text, of which the engine knows nothing.
                    self._engine.cancel([progress.id])
            yield delta

    def _listen(self, progress: Progress) -> None:
        # The loop may be closed already when the process ends under load.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, progress)


class RejectedError(ApiError):
    """The queue is full; `reason` is the limit by the name that vLLM's metric gives it."""

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(503, f"the server's queue is full ({reason}); try again later", None, retry_after)
        self.reason = reason


def choices_of(
    asked: Asked,
    prompts: Sequence[ReadPrompt],
    engine: Engine,
    vocabulary: Vocabulary,
    request_id: str,
    grammar: Grammar | None = None,
) -> list[Choice]:
    """The sequences that a request needs: n for each prompt, in that order.

    `prompts` leave room for at least one token. ApiError 400 where what a request asks for does not fit behind them.
    """
    _check_room(asked, prompts, engine.facts)
    first_seed = secrets.randbits(63) if asked.seed is None else asked.seed
    choices: list[Choice] = []
    for prompt in prompts:
        params = _fitted(asked, prompt, engine.facts.max_length)
        for _ in range(asked.n):
            index = len(choices)
            request = EngineRequest(
                id=f"{request_id}-{index}",
                prompt=prompt.tokens,
                params=replace(params, seed=first_seed + index),
                tenant=asked.tenant,
                priority=asked.priority,
                breakpoints=None if asked.automatic_cache else prompt.breakpoints,
                constraint=None if grammar is None else grammar.copy(),
            )
            choices.append(Choice(index, prompt, request, asked, vocabulary))
    return choices


def _check_room(asked: Asked, prompts: Sequence[ReadPrompt], facts: EngineFacts) -> None:
    """Refuse what slots and queue could never hold together, however empty they are: coming back would not help."""
    wanted, most = len(prompts) * asked.n, facts.most_held
    if most is not None and wanted > most:
        raise bad_request(
            f"the request asks for {wanted} answers (prompts times n); this server holds at most {most} at once",
            "n",
        )
    lengths = [len(prompt.tokens) for prompt in prompts for _ in range(asked.n)]
    waiting, limit = lengths[facts.slots :], facts.most_waiting_tokens
    if limit is not None and len(waiting) > 1 and sum(waiting) > limit:
        raise bad_request(
            f"of the request's answers (prompts times n) {len(waiting)} would have to wait, with {sum(waiting)} tokens "
            f"of prompts; this server lets {limit} wait",
            "n",
        )


def _fitted(asked: Asked, prompt: ReadPrompt, max_length: int) -> SamplingParams:
    """The parameters with a max_tokens that fits behind the prompt."""
    room = max_length - len(prompt.tokens)
    wanted = asked.max_tokens
    if wanted is not None and wanted > room and not asked.cut_to_context:
        raise bad_request(
            f"max_tokens is {wanted}, but only {room} tokens are left of the model's context of {max_length} "
            f"behind the prompt's {len(prompt.tokens)}",
            "max_tokens",
        )
    most = room if wanted is None else min(wanted, room)
    if asked.params.min_tokens > most:
        raise bad_request(
            f"min_tokens is {asked.params.min_tokens}, but at most {most} tokens fit", "min_tokens"
        )
    return replace(asked.params, max_tokens=most)
