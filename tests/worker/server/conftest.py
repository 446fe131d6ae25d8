"""Starts servers over tiny engines on free ports, with the official SDKs as their clients."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
import anthropic
import openai
import pytest

from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC, tokens_of
from tierwright_worker.engine.service import EngineRequest
from tierwright_worker.server.app import Server, ServerSettings
from tierwright_worker.server.lifecycle import Listener, ListenSettings
from tierwright_worker.tokenizer.text import TextCodec

SETTINGS = ServerSettings(model_names=("tiny", "tiny-fast"), source="file:///tiny", drafts=3)
ANSWER = "The answer is 42. Schöne Grüße 🚀 and more"


def say(text: str) -> Callable[[EngineRequest], Sequence[int]]:
    """An engine's answer that is always the same."""
    return lambda _: tokens_of(text)


@dataclass
class Running:
    """A server that runs, and how to talk to it."""

    engine: TinyEngine
    server: Server
    listener: Listener
    url: str
    http: aiohttp.ClientSession
    clients: list[openai.AsyncOpenAI | anthropic.AsyncAnthropic] = field(default_factory=list)

    def openai(self) -> openai.AsyncOpenAI:
        """OpenAI's client; it does not retry."""
        client = openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        self.clients.append(client)
        return client

    def anthropic(self) -> anthropic.AsyncAnthropic:
        """Anthropic's client; it does not retry."""
        client = anthropic.AsyncAnthropic(base_url=self.url, api_key="none", max_retries=0)
        self.clients.append(client)
        return client


Start = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Call it to start a server; all are stopped at the end."""
    runs: list[Running] = []

    async def begin(
        engine: TinyEngine | None = None,
        settings: ServerSettings = SETTINGS,
        codec: TextCodec = CODEC,
        drain_seconds: float = 5.0,
        warm: bool = True,
    ) -> Running:
        server = Server(settings, codec)
        engine = engine or TinyEngine(say(ANSWER))
        if warm:
            server.attach(engine)
        listener = Listener(server, ListenSettings("127.0.0.1", 0, drain_seconds))
        port = await listener.start()
        url = f"http://127.0.0.1:{port}"
        runs.append(Running(engine, server, listener, url, aiohttp.ClientSession(url)))
        return runs[-1]

    yield begin
    for run in runs:
        run.server.abort("the test is over")
        for client in run.clients:
            await client.close()
        await run.http.close()
        await run.listener.close()
        run.engine.close()
