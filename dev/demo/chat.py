"""Sends the demo's chat requests with the official OpenAI client and measures output tokens per second."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from openai import OpenAI

PROMPTS = Path(__file__).with_name("prompts.json")
MAX_TOKENS = 160


@dataclass(frozen=True)
class Answer:
    """One answer: its text, output tokens, seconds to the first token and from the first to the last."""

    text: str
    tokens: int
    first_token_s: float
    decode_s: float


@dataclass(frozen=True)
class Speed:
    """Answers of one tier to the same prompts, and their mean output tokens per second while decoding."""

    answers: tuple[Answer, ...]

    @property
    def tokens_per_second(self) -> float:
        """Output tokens after the first over the seconds they took, over all prompts."""
        return sum(each.tokens - 1 for each in self.answers) / sum(each.decode_s for each in self.answers)

    @property
    def first_token_ms(self) -> float:
        """Mean milliseconds to the first token."""
        return 1000 * sum(each.first_token_s for each in self.answers) / len(self.answers)


def prompts() -> list[str]:
    """The frozen edit and copy prompts."""
    loaded: list[str] = json.loads(PROMPTS.read_text(encoding="utf-8"))
    return loaded


def ask(client: OpenAI, model: str, prompt: str, max_tokens: int = MAX_TOKENS) -> Answer:
    """Stream one greedy answer.

    Raises:
        openai.OpenAIError: the tier refused or broke off.
    """
    began = time.monotonic()
    first = last = began
    pieces: list[str] = []
    tokens = 0
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        temperature=0,
        max_tokens=max_tokens,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            if chunk.usage:
                tokens = chunk.usage.completion_tokens
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                last = time.monotonic()
                first = first if pieces else last
                pieces.append(piece)
    return Answer("".join(pieces), tokens, first - began, last - first)


def measure(base_url: str, model: str) -> Speed:
    """Answer every prompt once, one after the other.

    A word before, which does not count, pays for the connection and for what the client loads at its first request:
    the speed that is measured first would look slow to its first token otherwise.
    """
    with OpenAI(base_url=base_url, api_key="not-needed", max_retries=0, timeout=60) as client:
        ask(client, model, "Hello", max_tokens=1)
        return Speed(tuple(ask(client, model, prompt) for prompt in prompts()))
