"""The server over the real engine: SmolLM2 answers through the official SDK, alike with and without speculation."""

import asyncio

import openai
import pytest

from tests.worker.server.waiting import until
from tests.worker.support import Bench
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.engine.service import EngineFacts
from tierwright_worker.loading.model import Model
from tierwright_worker.server.app import Server, ServerSettings
from tierwright_worker.server.lifecycle import Listener, ListenSettings

pytestmark = pytest.mark.model

END_OF_TURN = 2
DRAFTS = 8
COPY = (
    "Repeat the following lines word by word and say nothing else.\n"
    "alpha = load('alpha')\nbeta = load('beta')\ngamma = merge(alpha, beta)\nprint(gamma)\n"
)


class Served:
    """A server over one engine, and its client."""

    def __init__(self, bench: Bench, model: Model, drafts: int) -> None:
        self.batch = bench.engine(draft_tokens=drafts, end_tokens=[END_OF_TURN])
        facts = EngineFacts(self.batch.context, 2, frozenset({END_OF_TURN}))
        self.runner = EngineRunner(self.batch, facts, QueueLimits(16))
        self.server = Server(ServerSettings(("smollm2",), drafts=drafts), model.text)
        self.server.attach(self.runner)
        self.listener = Listener(self.server, ListenSettings("127.0.0.1", 0))

    async def __aenter__(self) -> openai.AsyncOpenAI:
        self.runner.start()
        port = await self.listener.start()
        self.client = openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0
        )
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.listener.close()
        await asyncio.to_thread(self.runner.stop)


async def ask(client: openai.AsyncOpenAI, question: str, temperature: float) -> str:
    """One answer of at most forty tokens."""
    answer = await client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": question}],
        max_tokens=40,
        temperature=temperature,
        seed=11,
    )
    return answer.choices[0].message.content or ""


async def test_answers_make_sense_and_drafts_change_none_of_them(
    smollm2_bench: Bench, smollm2: Model
) -> None:
    found: dict[int, list[str]] = {}
    for drafts in (0, DRAFTS):
        async with Served(smollm2_bench, smollm2, drafts) as client:
            found[drafts] = [
                await ask(client, "What is the capital of France? Answer in one sentence.", 0.0),
                await ask(client, COPY, 0.0),
                await ask(client, "Tell a short story.", 0.9),
            ]
    assert "Paris" in found[0][0]
    assert found[DRAFTS] == found[0]


async def test_a_stream_is_the_whole_answer_and_a_client_that_leaves_frees_its_slot(
    smollm2_bench: Bench, smollm2: Model
) -> None:
    served = Served(smollm2_bench, smollm2, DRAFTS)
    async with served as client:
        question: openai.types.chat.ChatCompletionUserMessageParam = {
            "role": "user",
            "content": "Count to ten.",
        }
        whole = await client.chat.completions.create(
            model="smollm2", messages=[question], temperature=0, max_tokens=30
        )
        stream = await client.chat.completions.create(
            model="smollm2", messages=[question], temperature=0, max_tokens=30, stream=True, logprobs=True
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == whole.choices[0].message.content
        logprobs = [
            entry.logprob
            for chunk in chunks
            if chunk.choices[0].logprobs
            for entry in chunk.choices[0].logprobs.content or []
        ]
        assert len(logprobs) == (whole.usage.completion_tokens if whole.usage else 0)
        assert all(value <= 0 for value in logprobs)
        left = await client.chat.completions.create(
            model="smollm2",
            messages=[question],
            max_tokens=150,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        await anext(aiter(left))
        assert served.runner.state().running == 1
        await left.close()
        await until(lambda: served.runner.state().running == 0)
        assert served.batch.counters.draft_tokens > 0
