"""Tokens per second as a client sees them: one stream, several at once, one long prompt. All greedy, over HTTP."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

PATIENCE = 600.0


class ClientError(Exception):
    """A server's answer cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One streamed answer: seconds on the client's clock at start, first and last text; tokens as the server counts them."""

    began: float
    first: float
    last: float
    tokens: int
    text: str

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first one."""
        return (self.tokens - 1) / (self.last - self.first)


async def stream(port: int, prompt: Sequence[int], tokens: int) -> Streamed:
    """Ask for exactly `tokens` tokens, end tokens ignored.

    Raises:
        ClientError: another status than 200, or another number of tokens.
    """
    body = {
        **_body(prompt, tokens),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    parts: list[str] = []
    times: list[float] = []
    counted = 0
    async with _session() as session:
        began = time.perf_counter()
        async with session.post(_url(port), json=body) as answer:
            await _check(answer)
            async for line in answer.content:
                event = _event(line)
                if event is None:
                    continue
                if event.get("usage"):
                    counted = int(event["usage"]["completion_tokens"])
                if event.get("choices") and event["choices"][0].get("text"):
                    times.append(time.perf_counter())
                    parts.append(str(event["choices"][0]["text"]))
    if counted != tokens or len(times) < 2:
        raise ClientError(f"asked for {tokens} tokens, got {counted} in {len(times)} pieces")
    return Streamed(began, times[0], times[-1], counted, "".join(parts))


async def together(port: int, prompts: Sequence[Sequence[int]], tokens: int) -> float:
    """Tokens per second of all prompts at once: from the first request to the last token of the last answer."""
    began = time.perf_counter()
    answers = await asyncio.gather(*(stream(port, prompt, tokens) for prompt in prompts))
    return sum(answer.tokens for answer in answers) / (time.perf_counter() - began)


async def read(port: int, prompt: Sequence[int]) -> float:
    """Prompt tokens per second: from the request to the answer of one token.

    Raises:
        ClientError: another status than 200.
    """
    async with _session() as session:
        began = time.perf_counter()
        async with session.post(_url(port), json=_body(prompt, 1)) as answer:
            await _check(answer)
            await answer.json()
            return len(prompt) / (time.perf_counter() - began)


def _session() -> aiohttp.ClientSession:
    # A connection of its own for each request: llama.cpp's server closes idle ones without a word.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=PATIENCE))


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1/completions"


def _body(prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    return {
        "model": "bench",
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,  # llama.cpp's word; the others do not know it
    }


async def _check(answer: aiohttp.ClientResponse) -> None:
    if answer.status != 200:
        raise ClientError(f"{answer.url} answered {answer.status}: {(await answer.text())[:300]}")


def _event(line: bytes) -> dict[str, Any] | None:
    text = line.decode().strip()
    if not text.startswith("data:") or text == "data: [DONE]":
        return None
    event: dict[str, Any] = json.loads(text.removeprefix("data:"))
    if "error" in event:
        raise ClientError(f"the stream ended with an error: {event['error']}")
    return event
