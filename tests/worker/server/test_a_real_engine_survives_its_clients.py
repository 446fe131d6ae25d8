"""Whatever clients send, and whenever they vanish: a clear answer, no slot or place in the queue lost, no neighbour disturbed."""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from tests.worker.server.real_server import QUEUE, RealServer, Serving
from tests.worker.support import Bench

SLOTS = 3
USER: Any = [{"role": "user", "content": "Say it."}]
LONG = {"prompt": "abc" * 20, "max_tokens": 150, "ignore_eos": True, "temperature": 0, "stream": True}


@pytest.fixture(scope="module")
def real(tiny: Bench) -> Iterator[RealServer]:
    """One server for all tests here: what one leaves behind, the next one would meet."""
    with Serving(tiny) as server:
        yield server


async def text_of(server: RealServer) -> str:
    """A plain answer, which is always the same; nothing is held before and after it."""
    await asyncio.to_thread(server.until_idle)
    async with aiohttp.ClientSession(server.url) as http:
        body = {"prompt": "Is all well?", "max_tokens": 20, "temperature": 0, "ignore_eos": True}
        async with http.post("/v1/completions", json=body) as response:
            assert response.status == 200
            found: str = (await response.json())["choices"][0]["text"]
    return found


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/completions", {"prompt": "x" * 5000}, 400, "the model's context is 256"),
        ("/v1/completions", {"prompt": "x" * 256}, 400, "at least one token must be left"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 10**9}, 400, "only 255 tokens are left"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 10**40}, 400, "max_tokens"),
        ("/v1/completions", {"prompt": [5, 10**6]}, 400, "is not one of the model's"),
        ("/v1/chat/completions", {"messages": []}, 400, "at least one message"),
        ("/v1/chat/completions", {"messages": [{"role": "wizard", "content": "x"}]}, 400, "must be one of"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 9000}]}, 400, "context"),
        ("/v1/messages", {"model": "tiny", "max_tokens": 0, "messages": USER}, 400, "at least 1"),
        ("/v1/messages", {"model": "tiny", "max_tokens": 5, "messages": []}, 400, "at least one message"),
        (
            "/v1/chat/completions",
            b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
            400,
            "not valid",
        ),
        ("/v1/completions", b'{"prompt": "\\ud83d"}', 400, "not valid JSON"),
        ("/v1/completions", b"\x00\x01\x02", 400, "not valid JSON"),
        ("/v1/completions", b"[" * 200_000, 400, "not valid JSON"),
    ],
)
async def test_a_request_that_cannot_be_served_gets_a_clear_answer(
    real: RealServer, path: str, body: Any, status: int, words: str
) -> None:
    before = await text_of(real)
    async with aiohttp.ClientSession(real.url) as http:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with http.post(path, data=data) as response:
            assert response.status == status
            assert words in (await response.json())["error"]["message"]
    assert await text_of(real) == before


async def test_what_no_token_stands_for_is_left_out_or_refused(real: RealServer) -> None:
    """The tokenizer knows ASCII alone."""
    async with aiohttp.ClientSession(real.url) as http:
        async with http.post("/v1/completions", json={"prompt": "🚀"}) as response:
            assert response.status == 400
            assert "holds no token" in (await response.json())["error"]["message"]
        async with http.post("/v1/completions", json={"prompt": "a🚀b", "max_tokens": 2}) as response:
            assert response.status == 200
            assert (await response.json())["usage"]["prompt_tokens"] == 2


async def test_of_a_thousand_requests_some_are_served_and_the_others_told_when_to_come_back(
    real: RealServer,
) -> None:
    alone = await text_of(real)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(real.url, connector=connector) as http:
        first = await http.post("/v1/completions", json=LONG)
        begun = [await first.content.readline()]

        async def one(at: int) -> int:
            body = {"prompt": f"request {at}", "max_tokens": 3}
            async with http.post("/v1/completions", json=body) as response:
                await response.read()
                if response.status == 503:
                    assert 1 <= int(response.headers["Retry-After"]) <= 60
                return response.status

        statuses = await asyncio.gather(*[one(at) for at in range(1000)])
        begun += [line async for line in first.content]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= SLOTS - 1 + QUEUE
    # The stream that was there before lost nothing.
    pieces = [json.loads(line[6:]) for line in begun if line.startswith(b"data: {")]
    assert len("".join(piece["choices"][0]["text"] for piece in pieces)) > 0
    assert begun[-2] == b"data: [DONE]\n"
    assert await text_of(real) == alone


def connect(real: RealServer) -> socket.socket:
    """A connection that may be cut at any time."""
    return socket.create_connection(("127.0.0.1", real.port), timeout=20)


def request_bytes(body: dict[str, Any]) -> bytes:
    """A whole request."""
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def cut(connection: socket.socket) -> None:
    """Reset the connection: the other side gets no goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


@pytest.mark.parametrize("gently", [True, False])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["headers", "body", "sent", "prefill", "decode", "queued"])
async def test_a_client_that_vanishes_leaves_nothing_behind(
    real: RealServer, phase: str, stream: bool, gently: bool
) -> None:
    before = await text_of(real)
    # A prompt of several chunks, each an iteration of its own.
    body = LONG | {"prompt": "abcd" * 50, "max_tokens": 50, "stream": stream}
    whole = request_bytes(body)
    crowd = [connect(real) for _ in range(SLOTS)] if phase == "queued" else []
    for connection in crowd:
        connection.sendall(request_bytes(LONG))
    if crowd:
        await asyncio.to_thread(real.until, lambda: real.runner.state().running == SLOTS)
    client = connect(real)
    client.sendall({"headers": whole[:40], "body": whole[:-20]}.get(phase, whole))
    if phase == "queued":
        await asyncio.to_thread(real.until, lambda: real.runner.state().waiting == 1)
    elif phase == "prefill":
        await asyncio.to_thread(real.until, lambda: real.server.in_flight == 1)
    elif phase == "decode":
        generated = real.batch.counters.generated_tokens
        await asyncio.to_thread(real.until, lambda: real.batch.counters.generated_tokens > generated)
    for connection in (client, *crowd):
        if gently:
            connection.close()
        else:
            cut(connection)
    assert await text_of(real) == before


async def test_a_client_that_leaves_costs_no_more_than_the_step_that_runs(real: RealServer) -> None:
    await text_of(real)
    async with aiohttp.ClientSession(real.url) as http:
        response = await http.post("/v1/completions", json=LONG)
        await response.content.readline()
        response.close()
    await asyncio.to_thread(real.until, lambda: real.runner.state().running == 0)
    # The engine knows of nobody: at most the step that ran when the word came is still counted.
    steps = real.batch.counters.steps
    await asyncio.to_thread(real.until_idle)
    assert real.batch.counters.steps <= steps + 1
    async with aiohttp.ClientSession(real.url) as http, http.get("/metrics") as response:
        assert "tierwright_worker_speculation_info" in await response.text()


async def test_json_of_a_schema_comes_through_both_sdks(real: RealServer) -> None:
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "mood", "schema": schema, "strict": True}}
    async with openai.AsyncOpenAI(base_url=f"{real.url}/v1", api_key="none", max_retries=0) as client:
        answer = await client.chat.completions.create(
            model="tiny", messages=USER, response_format=form, max_tokens=120
        )
        assert answer.choices[0].finish_reason == "stop"
        assert json.loads(answer.choices[0].message.content or "")["mood"] in ("good", "bad")
        stream = await client.chat.completions.create(
            model="tiny", messages=USER, response_format=form, max_tokens=120, stream=True, n=2
        )
        texts = ["", ""]
        async for chunk in stream:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        assert all(json.loads(text)["mood"] in ("good", "bad") for text in texts)
    async with anthropic.AsyncAnthropic(base_url=real.url, api_key="none", max_retries=0) as own:
        message = await own.messages.create(
            model="tiny",
            max_tokens=120,
            messages=USER,
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )
        (block,) = message.content
        assert block.type == "text"
        assert json.loads(block.text)["mood"] in ("good", "bad")


async def test_a_call_that_is_asked_for_is_made_through_both_sdks(real: RealServer) -> None:
    """By a model of random weights: the parameters refer to definitions, as those of pydantic models do."""
    schema: Any = {
        "type": "object",
        "properties": {"mood": {"$ref": "#/$defs/Mood"}},
        "required": ["mood"],
        "additionalProperties": False,
        "$defs": {"Mood": {"enum": ["good", "bad"]}},
    }
    function = {"name": "feel", "parameters": schema}
    other = {"name": "see", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
    tools: Any = [{"type": "function", "function": function}, {"type": "function", "function": other}]
    named: Any = {"type": "function", "function": {"name": "feel"}}
    async with openai.AsyncOpenAI(base_url=f"{real.url}/v1", api_key="none", max_retries=0) as client:
        choices: Any = ((named, {"feel"}), ("required", {"feel", "see"}))
        for choice, names in choices:
            answer = await client.chat.completions.create(
                model="tiny", messages=USER, tools=tools, tool_choice=choice, max_tokens=150
            )
            assert answer.choices[0].finish_reason == "tool_calls"
            (call,) = answer.choices[0].message.tool_calls or []
            assert call.type == "function"
            assert call.function.name in names
            assert json.loads(call.function.arguments) in ({"mood": "good"}, {"mood": "bad"}, {})
        short = await client.chat.completions.create(
            model="tiny", messages=USER, tools=tools, tool_choice=named, max_tokens=3
        )
        assert short.choices[0].finish_reason == "length"
        assert short.choices[0].message.tool_calls is None
    async with anthropic.AsyncAnthropic(base_url=real.url, api_key="none", max_retries=0) as own:
        message = await own.messages.create(
            model="tiny",
            max_tokens=150,
            messages=USER,
            tools=[{"name": "feel", "input_schema": schema}],
            tool_choice={"type": "tool", "name": "feel"},
        )
    assert message.stop_reason == "tool_use"
    (block,) = message.content
    assert block.type == "tool_use"
    assert block.input in ({"mood": "good"}, {"mood": "bad"})
