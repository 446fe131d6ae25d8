"""Runs the same chat requests through both speeds in turn, and says how each did: text, tokens over time, caches."""

import json
import re
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openai import OpenAI

PROMPTS: Final = Path(__file__).with_name("race_prompts.json")
_DRAFTED: Final = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Prompt:
    """One chat request. `kind`: edit, copy or prose."""

    kind: str
    text: str
    max_tokens: int


@dataclass(frozen=True)
class Answer:
    """One streamed answer. `arrivals`: seconds since the request and the output tokens that had come by then."""

    kind: str
    text: str
    prompt_tokens: int
    cached_tokens: int
    arrivals: tuple[tuple[float, int], ...]

    @property
    def tokens(self) -> int:
        """Output tokens."""
        return self.arrivals[-1][1] if self.arrivals else 0

    @property
    def first_token_s(self) -> float:
        """Seconds to the first token."""
        return self.arrivals[0][0] if self.arrivals else 0.0

    @property
    def seconds(self) -> float:
        """Seconds to the last token."""
        return self.arrivals[-1][0] if self.arrivals else 0.0


@dataclass(frozen=True)
class Run:
    """What one speed did: answers to all prompts, the first prompt once more, and what its engine counted meanwhile."""

    answers: tuple[Answer, ...]
    again: Answer
    drafted: int
    accepted: int

    def tokens_per_second(self, kinds: Sequence[str] = ("edit", "copy", "prose")) -> float:
        """Output tokens after each first one, over the seconds they took."""
        chosen = [each for each in self.answers if each.kind in kinds and each.tokens > 1]
        took = sum(each.seconds - each.first_token_s for each in chosen)
        first = sum(each.arrivals[0][1] for each in chosen)
        return (sum(each.tokens for each in chosen) - first) / took if took else 0.0

    @property
    def first_token_s(self) -> float:
        """Mean seconds to the first token of prompts that were not seen before."""
        return sum(each.first_token_s for each in self.answers) / len(self.answers)

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that were right; None without drafts."""
        return self.accepted / self.drafted if self.drafted else None


def prompts() -> tuple[Prompt, ...]:
    """The frozen prompts."""
    return tuple(Prompt(**each) for each in json.loads(PROMPTS.read_text(encoding="utf-8")))


def run(base_url: str, model: str) -> Run:
    """Ask every prompt once, and the first one again.

    `base_url`: of the server, without /v1.

    Raises:
        openai.OpenAIError: the tier refused or broke off.
    """
    before = counters(_metrics(base_url))
    asked = prompts()
    with OpenAI(base_url=f"{base_url}/v1", api_key="not-needed", max_retries=0, timeout=_TIMEOUT_S) as client:
        answers = tuple(_ask(client, model, prompt) for prompt in asked)
        again = _ask(client, model, asked[0])
    after = counters(_metrics(base_url))
    return Run(answers, again, after[0] - before[0], after[1] - before[1])


def counters(page: str) -> tuple[int, int]:
    """Drafted and accepted tokens out of a metrics page; zero where the engine does not speculate."""
    return _counter(page, _DRAFTED), _counter(page, _ACCEPTED)


def _counter(page: str, name: str) -> int:
    return int(
        sum(
            float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        )
    )


def _metrics(base_url: str) -> str:
    with urllib.request.urlopen(f"{base_url}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def _ask(client: OpenAI, model: str, prompt: Prompt) -> Answer:
    began = time.monotonic()
    pieces: list[str] = []
    arrivals: list[tuple[float, int]] = []
    read = cached = 0
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt.text}],
        temperature=0,
        max_tokens=prompt.max_tokens,
        stream=True,
        # With each piece how many tokens have come so far: a piece may hold several.
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ) as stream:
        for chunk in stream:
            if chunk.usage:
                read = chunk.usage.prompt_tokens
                details = chunk.usage.prompt_tokens_details
                cached = (details.cached_tokens or 0) if details else 0
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                pieces.append(piece)
                so_far = chunk.usage.completion_tokens if chunk.usage else len(pieces)
                arrivals.append((time.monotonic() - began, so_far))
    return Answer(prompt.kind, "".join(pieces), read, cached, tuple(arrivals))
