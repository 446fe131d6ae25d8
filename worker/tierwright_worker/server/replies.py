"""Writes answers to clients as tokens come, or whole; an answer that breaks off never looks like one that ended."""

from typing import Any, Protocol

from aiohttp import web

from tierwright_worker.server import anthropic_answers, openai_answers
from tierwright_worker.server.anthropic_answers import AnthropicAnswers, Blocks
from tierwright_worker.server.errors import ApiError
from tierwright_worker.server.generation import Delta, Generation, GenerationFailedError
from tierwright_worker.server.openai_answers import ChoiceText, OpenAiAnswers

# Set on a request: its id, and that a stream has begun, so that no other answer can follow.
REQUEST_ID = web.RequestKey("request_id", str)
BEGAN = web.RequestKey("began", bool)
STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would hold events back
}


class Reply(Protocol):
    """How one API answers."""

    async def whole(self, generation: Generation) -> dict[str, Any]:
        """The document of a request that does not stream; ApiError where the engine gave up."""
        ...

    async def stream(self, request: web.Request, generation: Generation) -> web.StreamResponse:
        """A finished stream. ApiError as long as nothing was sent; afterwards an error event and a cut connection."""
        ...


class OpenAiReply:
    """Chat completions and completions."""

    def __init__(self, answers: OpenAiAnswers) -> None:
        self._answers = answers

    async def whole(self, generation: Generation) -> dict[str, Any]:
        """One object with all choices."""
        texts = [ChoiceText() for _ in generation.choices]
        try:
            async for delta in generation.deltas():
                texts[delta.choice].add(delta)
        except GenerationFailedError as error:
            raise _given_up(generation, error) from None
        return self._answers.whole(generation.choices, texts)

    async def stream(self, request: web.Request, generation: Generation) -> web.StreamResponse:
        """Chunks, then usage where asked for, then [DONE]."""
        answers = self._answers
        response = web.StreamResponse(headers=STREAM_HEADERS)
        offsets = [0] * len(generation.choices)
        try:
            async for delta in generation.deltas():
                choice = generation.choices[delta.choice]
                events = []
                if delta.begun is not None:
                    events += [answers.opening(choice)]
                # Inside a character or a possible stop string there is nothing to show.
                if (
                    delta.text
                    or delta.calls
                    or delta.finish is not None
                    or answers.asked.params.logprobs is not None
                ):
                    chunk = answers.chunk(choice, delta, offsets[delta.choice])
                    if answers.asked.continuous_usage:
                        chunk["usage"] = answers.usage(generation.choices)
                    events.append(chunk)
                offsets[delta.choice] += len(delta.text)
                await _send(
                    request, response, b"".join(openai_answers.event(item) for item in events if item)
                )
        except GenerationFailedError as error:
            failed = _given_up(generation, error)
            return await _cut(request, response, openai_answers.event(failed.openai_body()), failed)
        if answers.asked.include_usage:
            await _send(request, response, openai_answers.event(answers.usage_chunk(generation.choices)))
        await _send(request, response, openai_answers.DONE)
        await response.write_eof()
        return response


class AnthropicReply:
    """Messages."""

    def __init__(self, answers: AnthropicAnswers) -> None:
        self._answers = answers

    async def whole(self, generation: Generation) -> dict[str, Any]:
        """One message."""
        try:
            deltas = [delta async for delta in generation.deltas()]
        except GenerationFailedError as error:
            raise _given_up(generation, error) from None
        _last(deltas[-1] if deltas else None)
        return self._answers.whole(generation.choices[0], deltas)

    async def stream(self, request: web.Request, generation: Generation) -> web.StreamResponse:
        """Events in the order of Anthropic's API, from message_start to message_stop."""
        response = web.StreamResponse(headers=STREAM_HEADERS)
        choice = generation.choices[0]
        blocks = Blocks()
        last: Delta | None = None
        try:
            async for delta in generation.deltas():
                last = delta
                events = []
                if delta.begun is not None:
                    events.append(self._answers.opening(choice))
                events += blocks.add(delta)
                await _send(request, response, b"".join(anthropic_answers.event(item) for item in events))
        except GenerationFailedError as error:
            failed = _given_up(generation, error)
            body = failed.anthropic_body(request[REQUEST_ID])
            return await _cut(request, response, anthropic_answers.event(body), failed)
        closing = [*blocks.end(), *self._answers.closing(choice, _last(last))]
        await _send(request, response, b"".join(anthropic_answers.event(item) for item in closing))
        await response.write_eof()
        return response


def _last(delta: Delta | None) -> Delta:
    if delta is None:
        raise RuntimeError("an answer ended without a token")
    return delta


def _given_up(generation: Generation, error: GenerationFailedError) -> ApiError:
    return ApiError(503 if generation.stopped else 500, str(error))


async def _send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Begin the stream with its first event: until then an error can still have a status of its own."""
    if not response.prepared:
        request[BEGAN] = True
        await response.prepare(request)
    if data:
        await response.write(data)


async def _cut(
    request: web.Request, response: web.StreamResponse, event: bytes, error: ApiError
) -> web.StreamResponse:
    """Tell of a failure and cut the connection: a stream that ends cleanly reads as a success to both SDKs."""
    if not response.prepared:
        raise error
    await response.write(event)
    if request.transport is not None:
        request.transport.close()
    return response
