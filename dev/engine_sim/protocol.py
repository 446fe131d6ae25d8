"""Reads the bodies of OpenAI-style requests as vLLM does, refusing what is malformed or not simulated."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dev.engine_sim.text import render_chat

DEFAULT_COMPLETION_TOKENS = 16
NOT_SIMULATED = ("logprobs", "top_logprobs", "prompt_logprobs", "structured_outputs", "use_beam_search")


class ApiError(Exception):
    """An answer in vLLM's error shape; `kind` is the error's `type`."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    def body(self) -> dict[str, Any]:
        """The JSON document that a client gets."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    """The 400 of a request that can never succeed."""
    return ApiError(400, "BadRequestError", message, param)


@dataclass(frozen=True)
class Prompt:
    """What the engine reads (`text`) and the part of it that the answer is about (`source`)."""

    text: str
    source: str


@dataclass(frozen=True)
class GenerationRequest:
    """A chat or completion request; `max_tokens` None means: up to the model's length."""

    model: str | None
    prompts: tuple[Prompt, ...]
    n: int
    max_tokens: int | None
    min_tokens: int
    stop: tuple[str, ...]
    include_stop: bool
    ignore_eos: bool
    seed: int | None
    temperature: float
    stream: bool
    include_usage: bool
    continuous_usage: bool
    echo: bool
    cache_salt: str


def parse_json(text: bytes) -> dict[str, Any]:
    """A request's JSON object; ApiError 400 otherwise."""
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the request body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("the request body must be a JSON object")
    return document


def parse_chat(body: Mapping[str, Any]) -> GenerationRequest:
    """A /v1/chat/completions request; ApiError names the field."""
    if body.get("tool_choice") not in (None, "none", "auto"):
        raise bad_request("tool calls are not simulated: tool_choice must be auto or none", "tool_choice")
    limit = _integer(body, "max_completion_tokens", 1)
    if limit is None:
        limit = _integer(body, "max_tokens", 1)
    return _parse(body, (chat_prompt(body),), limit)


def parse_completion(body: Mapping[str, Any]) -> GenerationRequest:
    """A /v1/completions request; ApiError names the field."""
    if body.get("suffix"):
        raise bad_request("suffix is not supported", "suffix")
    limit = _integer(body, "max_tokens", 1)
    return _parse(body, _prompts(body), DEFAULT_COMPLETION_TOKENS if limit is None else limit)


def chat_prompt(body: Mapping[str, Any]) -> Prompt:
    """The rendered conversation of a body with `messages`."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list of at least one message", "messages")
    turns = [_turn(message, index) for index, message in enumerate(messages)]
    source = next((text for role, text in reversed(turns) if role == "user"), turns[-1][1])
    return Prompt(render_chat(turns), source)


def _turn(message: object, index: int) -> tuple[str, str]:
    where = f"messages[{index}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise bad_request(f"{where} must be an object with a role", where)
    content = message.get("content")
    if content is None and message["role"] == "assistant":
        return message["role"], ""
    if isinstance(content, str):
        return message["role"], content
    if not isinstance(content, list):
        raise bad_request(f"{where}.content must be a string or a list of parts", f"{where}.content")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise bad_request(
                f"{where}.content: only text parts; the model is not multimodal", f"{where}.content"
            )
        texts.append(part["text"])
    return message["role"], "\n".join(texts)


def _prompts(body: Mapping[str, Any]) -> tuple[Prompt, ...]:
    given = body.get("prompt")
    if isinstance(given, str) and given:
        return (Prompt(given, given),)
    if isinstance(given, list) and given:
        entries = [given] if all(isinstance(item, int) for item in given) else given
        return tuple(_prompt(entry) for entry in entries)
    raise bad_request("prompt must be a non-empty string, a list of them, or token ids", "prompt")


def _prompt(entry: object) -> Prompt:
    if isinstance(entry, str) and entry:
        return Prompt(entry, entry)
    if (
        isinstance(entry, list)
        and entry
        and all(isinstance(item, int) and not isinstance(item, bool) for item in entry)
    ):
        # A token id has no text here: each becomes one piece of its own.
        return Prompt("".join(f" {item % 10**5:05d}" for item in entry), "")
    raise bad_request("prompt: each entry must be a non-empty string or a list of token ids", "prompt")


def _parse(body: Mapping[str, Any], prompts: tuple[Prompt, ...], max_tokens: int | None) -> GenerationRequest:
    for name in NOT_SIMULATED:
        if body.get(name):
            raise bad_request(f"{name} is not simulated", name)
    response_format = body.get("response_format")
    if response_format is not None and (
        not isinstance(response_format, dict) or response_format.get("type") != "text"
    ):
        raise bad_request("response_format: only type text is simulated", "response_format")
    stream = _flag(body, "stream")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise bad_request("stream_options must be an object", "stream_options")
    if options and not stream:
        raise bad_request("stream_options can only be given with stream=True", "stream_options")
    temperature = body.get("temperature")
    if temperature is not None and (not isinstance(temperature, int | float) or temperature < 0):
        raise bad_request(f"temperature must be non-negative, got {temperature!r}", "temperature")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise bad_request("model must be a string", "model")
    min_tokens = _integer(body, "min_tokens", 0) or 0
    if max_tokens is not None and min_tokens > max_tokens:
        raise bad_request(f"min_tokens ({min_tokens}) is more than max_tokens ({max_tokens})", "min_tokens")
    return GenerationRequest(
        model=model,
        prompts=prompts,
        n=_integer(body, "n", 1) or 1,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        stop=_stop(body.get("stop")),
        include_stop=_flag(body, "include_stop_str_in_output"),
        ignore_eos=_flag(body, "ignore_eos"),
        seed=_integer(body, "seed", None),
        temperature=1.0 if temperature is None else float(temperature),
        stream=stream,
        include_usage=_flag(options or {}, "include_usage"),
        continuous_usage=_flag(options or {}, "continuous_usage_stats"),
        echo=_flag(body, "echo"),
        cache_salt=str(body.get("cache_salt") or ""),
    )


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        raise bad_request("stop must be a non-empty string or a list of them", "stop")
    return tuple(entries)


def _integer(body: Mapping[str, Any], name: str, at_least: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(f"{name} must be an integer, got {value!r}", name)
    if at_least is not None and value < at_least:
        raise bad_request(f"{name} must be at least {at_least}, got {value}", name)
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad_request(f"{name} must be true or false, got {value!r}", name)
    return bool(value)
