"""Shapes what clients of Anthropic's Messages API get back: messages, stream events, usage with its cache counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tierwright_worker.engine.interface import FinishReason
from tierwright_worker.server.generation import Choice, Delta, MadeCall


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event, named by the document's type."""
    return b"event: " + str(document["type"]).encode() + b"\ndata: " + orjson.dumps(document) + b"\n\n"


@dataclass(frozen=True)
class AnthropicAnswers:
    """What all objects of one answer share."""

    message_id: str
    model: str
    lossy: bool = False  # whether drafts may pass that are not the model's own choice

    def whole(self, choice: Choice, deltas: Sequence[Delta]) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        content: list[dict[str, Any]] = []
        for delta in deltas:
            if delta.text and content and content[-1]["type"] == "text":
                content[-1]["text"] += delta.text
            elif delta.text:
                content.append({"type": "text", "text": delta.text})
            # As the model wrote them: its numbers may be longer than JSON writers take.
            content += [_block(call, orjson.Fragment(call.arguments)) for call in delta.calls]
        content = content or [{"type": "text", "text": ""}]
        return self._message(content, choice, choice.generated) | _stop(choice, deltas[-1])

    def opening(self, choice: Choice) -> dict[str, Any]:
        """The first event; it needs the cache's counts, so it waits for the first tokens."""
        return {"type": "message_start", "message": self._message([], choice, 1)}

    def closing(self, choice: Choice, last: Delta) -> list[dict[str, Any]]:
        """The events behind the last block; the usage is that of the whole answer."""
        return [
            {
                "type": "message_delta",
                "delta": _stop(choice, last),
                "usage": self._usage(choice, choice.generated),
            },
            {"type": "message_stop"},
        ]

    def _message(self, content: list[dict[str, Any]], choice: Choice, generated: int) -> dict[str, Any]:
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage(choice, generated),
        }

    def _usage(self, choice: Choice, generated: int) -> dict[str, Any]:
        counts = usage(choice, generated)
        return counts | {"bent_tokens": choice.bent} if self.lossy else counts


def usage(choice: Choice, generated: int) -> dict[str, Any]:
    """Token counts; the input's three add up to the prompt."""
    cache = choice.cache
    return {
        "input_tokens": len(choice.prompt.tokens) - cache.read - cache.created,
        "cache_read_input_tokens": cache.read,
        "cache_creation_input_tokens": cache.created,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cache.created_short,
            "ephemeral_1h_input_tokens": cache.created_long,
        },
        "output_tokens": generated,
    }


class Blocks:
    """The content blocks of one stream: text as it comes, each call as a block of its own, always at least one block."""

    def __init__(self) -> None:
        self._index = 0
        self._open = False

    def add(self, delta: Delta) -> list[dict[str, Any]]:
        """The events of a step's text and calls."""
        events = []
        if delta.text:
            events += self._text(delta.text)
        for call in delta.calls:
            events += self._close()
            piece = {"type": "input_json_delta", "partial_json": call.arguments}
            events += [self._start(_block(call, {})), self._piece(piece), *self._close()]
        return events

    def end(self) -> list[dict[str, Any]]:
        """The events that leave no block open; an answer without a word has one empty block of text."""
        if self._open or self._index:
            return self._close()
        return [self._start({"type": "text", "text": ""}), *self._close()]

    def _text(self, text: str) -> list[dict[str, Any]]:
        opening = [] if self._open else [self._start({"type": "text", "text": ""})]
        return [*opening, self._piece({"type": "text_delta", "text": text})]

    def _start(self, block: dict[str, Any]) -> dict[str, Any]:
        self._open = True
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _piece(self, piece: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": piece}

    def _close(self) -> list[dict[str, Any]]:
        if not self._open:
            return []
        self._open = False
        self._index += 1
        return [{"type": "content_block_stop", "index": self._index - 1}]


def _block(call: MadeCall, arguments: dict[str, Any] | orjson.Fragment) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _stop(choice: Choice, last: Delta) -> dict[str, Any]:
    if isinstance(last.stop, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": last.stop}
    if last.finish is FinishReason.LENGTH:
        reason = "model_context_window_exceeded" if last.cut else "max_tokens"
        return {"stop_reason": reason, "stop_sequence": None}
    return {"stop_reason": "tool_use" if choice.calls else "end_turn", "stop_sequence": None}
