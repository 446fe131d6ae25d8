"""Holds what one request asks for, whichever API it came by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tierwright_worker.engine.interface import SamplingParams


@dataclass(frozen=True)
class Mark:
    """A cache breakpoint: the prompt up to and including this part is worth caching for `seconds`.

    `message` and `part` count from 0 in the conversation that goes to the template; a system prompt is message 0 there.
    `message` -1 marks the tools.
    """

    message: int
    part: int
    seconds: float


@dataclass(frozen=True)
class Conversation:
    """Messages as a chat template reads them; `parts` keeps the texts of each message apart for breakpoints.

    `continue_final`: the answer goes on with the text of the last message, as if the model had begun it. `opening`: what
    the answer is made to begin with, which is no part of it.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    add_generation_prompt: bool = True
    continue_final: bool = False
    opening: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[tuple[str, ...], ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class RawPrompt:
    """A completion's prompt: text, or token ids as they are."""

    text: str | None
    tokens: tuple[int, ...] = ()
    add_special_tokens: bool = True


@dataclass(frozen=True)
class Asked:
    """A request. `params` lacks what is known only later: max_tokens where `max_tokens` is None, and a drawn seed.

    `schema`: what the answer is kept to, None = nothing; `schema_field`: where it stood, for messages.
    `tool_names`: tools that may be called; `forced`: those of which one must be; `most_calls`: calls in one answer at most, None = any number.
    `cut_to_context`: a max_tokens beyond the context is cut instead of refused. `automatic_cache`: all full pages are
    cached, not only those up to the conversation's marks.
    """

    model: str | None
    prompts: tuple[Conversation | RawPrompt, ...]
    params: SamplingParams
    max_tokens: int | None
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    echo: bool = False
    tenant: str = ""
    priority: int = 0
    schema: Mapping[str, Any] | None = None
    schema_field: str = ""
    tool_names: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()
    most_calls: int | None = None
    cut_to_context: bool = False
    automatic_cache: bool = True
