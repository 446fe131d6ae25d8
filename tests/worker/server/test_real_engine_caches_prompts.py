"""The server over a real engine with a prompt cache: created first, read next, the same text both times, tenants apart."""

import asyncio

import anthropic
import pytest

from tests.worker.server.tiny_model import CODEC
from tests.worker.support import Bench, bench, random_model
from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.interface import CacheSettings, QueueLimits
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.engine.service import EngineFacts
from tierwright_worker.server.app import Server, ServerSettings
from tierwright_worker.server.lifecycle import Listener, ListenSettings

PAGE = 32
SYSTEM = "You are a helper who reads this long text again and again, which is worth keeping. " * 2


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A small random model; its answers mean nothing, but they are always the same."""
    config, parameters = random_model("llama", tmp_path_factory.mktemp("cached"))
    return bench(
        config, parameters, slots=2, max_context=384, draft_tokens=2, page_tokens=PAGE, lengths=(384,)
    )


async def ask(client: anthropic.AsyncAnthropic, user: str) -> tuple[str, anthropic.types.Usage]:
    """The answer to one question about a system prompt that is to be kept."""
    message = await client.messages.create(
        model="tiny",
        max_tokens=12,
        system=[{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": "Why?"}],
        extra_body={"temperature": 0},
        metadata={"user_id": user},
    )
    return "".join(block.text for block in message.content if block.type == "text"), message.usage


async def test_the_first_request_creates_what_the_second_reads(machine: Bench) -> None:
    settings = CacheSettings(page_tokens=PAGE, device_pages=16, host_pages=0, ttl=300)
    batch = machine.engine(draft_tokens=2, prompts=CachedPrompts(settings, machine.executor, "tiny"))
    runner = EngineRunner(batch, EngineFacts(batch.context, 2, frozenset()), QueueLimits(8))
    server = Server(ServerSettings(("tiny",), drafts=2), CODEC)
    server.attach(runner)
    listener = Listener(server, ListenSettings("127.0.0.1", 0))
    runner.start()
    url = f"http://127.0.0.1:{await listener.start()}"
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        created, first = await ask(client, "one")
        read, second = await ask(client, "one")
        apart, third = await ask(client, "two")
    await listener.close()
    await asyncio.to_thread(runner.stop)
    assert created == read == apart
    kept = len(SYSTEM) // PAGE * PAGE
    assert kept <= (first.cache_creation_input_tokens or 0) <= kept + PAGE
    assert first.cache_read_input_tokens == 0
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert second.cache_creation_input_tokens == 0
    assert third.cache_read_input_tokens == 0
