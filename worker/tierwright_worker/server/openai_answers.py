"""Shapes what clients of OpenAI's API get back: chat and completion objects, stream chunks, usage, log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tierwright_worker.engine.interface import FinishReason
from tierwright_worker.server.asked import Asked
from tierwright_worker.server.generation import Choice, Delta, MadeCall, ShownToken

DONE = b"data: [DONE]\n\n"


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"


@dataclass
class ChoiceText:
    """What one choice of a whole answer is made of, while it is collected."""

    text: str = ""
    tokens: list[ShownToken] = field(default_factory=list)
    calls: list[MadeCall] = field(default_factory=list)
    last: Delta | None = None

    def add(self, delta: Delta) -> None:
        """Take a delta in."""
        self.text += delta.text
        self.tokens += delta.tokens
        self.calls += delta.calls
        self.last = delta


@dataclass(frozen=True)
class OpenAiAnswers:
    """What all objects of one answer share; `created` is Unix seconds. `token_text` shows a token by its id."""

    request_id: str
    created: int
    model: str
    fingerprint: str
    chat: bool
    asked: Asked
    token_text: Sequence[bytes]
    lossy: bool = False  # whether drafts may pass that are not the model's own choice

    def whole(self, choices: Sequence[Choice], texts: Sequence[ChoiceText]) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        entries = [self._whole_choice(choice, text) for choice, text in zip(choices, texts, strict=True)]
        document = self._object("chat.completion" if self.chat else "text_completion", entries)
        return document | {"usage": self.usage(choices)}

    def opening(self, choice: Choice) -> dict[str, Any] | None:
        """What a choice's stream begins with: the role in a chat, the echoed prompt in a completion."""
        if self.chat:
            return self._chunk({"index": choice.index, "delta": {"role": "assistant", "content": ""}})
        return self._chunk({"index": choice.index, "text": choice.prompt.text}) if self.asked.echo else None

    def chunk(self, choice: Choice, delta: Delta, offset: int) -> dict[str, Any]:
        """New text of a choice; `offset` is how many characters of it came before."""
        entry: dict[str, Any] = {"index": delta.choice}
        entry |= {"delta": _delta(delta)} if self.chat else {"text": delta.text}
        if self.asked.params.logprobs is not None:
            entry["logprobs"] = self._logprobs(delta.tokens, offset)
        if delta.finish is not None:
            entry |= {"finish_reason": _finish(choice), "stop_reason": delta.stop}
        return self._chunk(entry)

    def usage_chunk(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """The last chunk of a stream that was asked for usage."""
        return self._object(self._chunk_kind, []) | {"usage": self.usage(choices)}

    def usage(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Token counts; a prompt counts once however many answers it has, with what its first one read from the cache."""
        first = choices[:: self.asked.n]
        prompt = sum(len(choice.prompt.tokens) for choice in first)
        generated = sum(choice.generated for choice in choices)
        details = {
            "cached_tokens": sum(choice.cache.read for choice in first),
            "cache_write_tokens": sum(choice.cache.created for choice in first),
        }
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": details,
        }
        return usage | {"bent_tokens": sum(choice.bent for choice in choices)} if self.lossy else usage

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
            "system_fingerprint": self.fingerprint,
        }

    def _chunk(self, entry: dict[str, Any]) -> dict[str, Any]:
        return self._object(self._chunk_kind, [{"logprobs": None, "finish_reason": None} | entry])

    def _whole_choice(self, choice: Choice, text: ChoiceText) -> dict[str, Any]:
        entry: dict[str, Any] = {"index": choice.index, "logprobs": None}
        if self.asked.params.logprobs is not None:
            entry["logprobs"] = self._logprobs(text.tokens, 0)
        entry |= {"finish_reason": _finish(choice), "stop_reason": text.last.stop if text.last else None}
        if self.chat:
            message: dict[str, Any] = {"role": "assistant", "content": text.text, "refusal": None}
            if text.calls:
                message |= {"content": text.text or None, "tool_calls": [_call(call) for call in text.calls]}
            return entry | {"message": message}
        return entry | {"text": choice.prompt.text + text.text if self.asked.echo else text.text}

    def _logprobs(self, tokens: Sequence[ShownToken], offset: int) -> dict[str, Any]:
        known = [shown for shown in tokens if shown.logprobs is not None]
        if self.chat:
            return {"content": [self._chat_logprob(shown) for shown in known], "refusal": None}
        offsets = []
        for shown in known:
            offsets.append(offset)
            offset += len(shown.text)
        return {
            "tokens": [self._name(shown.token) for shown in known],
            "token_logprobs": [_finite(shown.logprobs.logprob) for shown in known if shown.logprobs],
            "top_logprobs": [
                {self._name(token): _finite(value) for token, value in shown.logprobs.top}
                for shown in known
                if shown.logprobs
            ],
            "text_offset": offsets,
        }

    def _chat_logprob(self, shown: ShownToken) -> dict[str, Any]:
        assert shown.logprobs is not None  # noqa: S101  # picked by the caller
        top = [self._valued(token, value) for token, value in shown.logprobs.top]
        return self._valued(shown.token, shown.logprobs.logprob) | {"top_logprobs": top}

    def _valued(self, token: int, logprob: float) -> dict[str, Any]:
        return {
            "token": self._name(token),
            "logprob": _finite(logprob),
            "bytes": list(self._bytes(token)),
        }

    def _name(self, token: int) -> str:
        """A token's text; special tokens, which have none, and pieces of characters still need a name."""
        return self._bytes(token).decode("utf-8", "replace") or f"<token {token}>"

    def _bytes(self, token: int) -> bytes:
        return self.token_text[token] if token < len(self.token_text) else b""


def _delta(delta: Delta) -> dict[str, Any]:
    """The text and the calls of a step; a call comes whole, with its place among the answer's calls."""
    if not delta.calls:
        return {"content": delta.text}
    calls = [{"index": call.place, **_call(call)} for call in delta.calls]
    return {"content": delta.text or None, "tool_calls": calls}


def _call(call: MadeCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish(choice: Choice) -> str:
    """Why an answer ended; a turn that ended with calls waits for their results."""
    return "tool_calls" if choice.calls and choice.finish is FinishReason.STOP else str(choice.finish)


def _finite(logprob: float) -> float:
    """JSON has no infinity; OpenAI's API says -9999 for it."""
    return max(logprob, -9999.0)
