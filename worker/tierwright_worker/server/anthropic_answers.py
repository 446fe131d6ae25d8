"""Shapes what clients of Anthropic's Messages API get back: messages, stream events, usage with its cache counts."""

from dataclasses import dataclass
from typing import Any

import orjson

from tierwright_worker.engine.interface import FinishReason
from tierwright_worker.server.generation import Choice, Delta


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event, named by the document's type."""
    return b"event: " + str(document["type"]).encode() + b"\ndata: " + orjson.dumps(document) + b"\n\n"


@dataclass(frozen=True)
class AnthropicAnswers:
    """What all objects of one answer share."""

    message_id: str
    model: str
    lossy: bool = False  # whether drafts may pass that are not the model's own choice

    def whole(self, choice: Choice, text: str, last: Delta) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        return self._message([{"type": "text", "text": text}], choice, choice.generated) | _stop(last)

    def opening(self, choice: Choice) -> list[dict[str, Any]]:
        """The events before the first text; they need the cache's counts, so they wait for the first tokens."""
        block = {"type": "text", "text": ""}
        return [
            {"type": "message_start", "message": self._message([], choice, 1)},
            {"type": "content_block_start", "index": 0, "content_block": block},
        ]

    def text(self, delta: Delta) -> dict[str, Any]:
        """New text."""
        return {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": delta.text},
        }

    def closing(self, choice: Choice, last: Delta) -> list[dict[str, Any]]:
        """The events behind the last text; the usage is that of the whole answer."""
        return [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": _stop(last), "usage": self._usage(choice, choice.generated)},
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


def _stop(last: Delta) -> dict[str, Any]:
    if isinstance(last.stop, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": last.stop}
    if last.finish is FinishReason.LENGTH:
        reason = "model_context_window_exceeded" if last.cut else "max_tokens"
        return {"stop_reason": reason, "stop_sequence": None}
    return {"stop_reason": "end_turn", "stop_sequence": None}
