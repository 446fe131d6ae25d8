"""Shapes what clients get back: chat and completion objects, stream chunks and usage, as vLLM sends them."""

import json
from dataclasses import dataclass
from typing import Any

from dev.engine_sim.config import VLLM_VERSION
from dev.engine_sim.generation import Choice
from dev.engine_sim.protocol import GenerationRequest

FINGERPRINT = f"vllm-{VLLM_VERSION}-simulated"


@dataclass(frozen=True)
class Reply:
    """What all objects of one answer share; `created` is Unix seconds."""

    request_id: str
    created: int
    model: str
    chat: bool
    asked: GenerationRequest
    prompt_tokens_details: bool

    def whole(self, choices: tuple[Choice, ...], cached_tokens: int) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        entries = [self._whole_choice(choice) for choice in choices]
        emitted = sum(len(choice.texts) for choice in choices)
        return self._object("chat.completion" if self.chat else "text_completion", entries) | {
            "usage": self.usage(choices, emitted, cached_tokens)
        }

    def first_chunk(self, choice: Choice) -> dict[str, Any] | None:
        """What a choice's stream begins with: the role in a chat, the echoed prompt in a completion."""
        if self.chat:
            return self._chunk(choice, {"role": "assistant", "content": ""}, "", finished=False)
        return self._chunk(choice, {}, choice.prompt.text, finished=False) if self.asked.echo else None

    def chunk(self, choice: Choice, text: str, finished: bool) -> dict[str, Any]:
        """New text of a choice; `finished` adds why it ended."""
        return self._chunk(choice, {"content": text}, text, finished)

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The last chunk of a stream that was asked for usage."""
        return self._object(self._chunk_kind, []) | {"usage": usage}

    def usage(self, choices: tuple[Choice, ...], emitted: int, cached_tokens: int) -> dict[str, Any]:
        """Token counts; each prompt counts once, however many answers it has."""
        prompts = {choice.index // self.asked.n: choice.job.request.prompt_tokens for choice in choices}
        prompt_tokens = sum(prompts.values())
        usage: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + emitted,
            "completion_tokens": emitted,
            "prompt_tokens_details": None,
        }
        if self.prompt_tokens_details:
            usage["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
        return usage

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "system_fingerprint": FINGERPRINT,
        }

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        text = choice.text
        ends = {"finish_reason": choice.finish_reason, "stop_reason": choice.stop_reason}
        if self.chat:
            message: dict[str, Any] = {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "tool_calls": [],
            }
            return {"index": choice.index, "message": message, "logprobs": None, **ends}
        if self.asked.echo:
            text = choice.prompt.text + text
        return {"index": choice.index, "text": text, "logprobs": None, **ends}

    def _chunk(self, choice: Choice, delta: dict[str, str], text: str, finished: bool) -> dict[str, Any]:
        content = {"delta": delta} if self.chat else {"text": text}
        entry: dict[str, Any] = {"index": choice.index, **content, "logprobs": None, "finish_reason": None}
        if finished:
            entry |= {"finish_reason": choice.finish_reason, "stop_reason": choice.stop_reason}
        return self._object(self._chunk_kind, [entry])


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
