"""The official OpenAI SDK and plain HTTP get from the simulator what they get from vLLM."""

import asyncio
from dataclasses import replace
from typing import cast

import aiohttp
import openai
import pytest
from aiohttp.test_utils import TestServer
from openai.types.chat import ChatCompletionChunk

from dev.engine_sim.server import Server
from dev.engine_sim.settings import Settings
from tests.unit.engine_sim.running import AT_ONCE, MODEL, config_of, running_engine, sdk_of, until_running

COPY = "Repeat: " + " ".join(f"word{i}" for i in range(40))
NAMED = ("--served-model-name", "llama", "llama-fast")
# Steps so slow that a request stays in flight until the test lets go of it.
STUCK = replace(AT_ONCE, time_scale=1.0, step_base_ms=3_600_000.0)


async def test_models_lists_every_served_name_with_its_length() -> None:
    async with running_engine(*NAMED, "--max-model-len", "4096") as (_, server), sdk_of(server) as client:
        models = (await client.models.list()).data
    assert [(model.id, model.to_dict()["max_model_len"]) for model in models] == [
        ("llama", 4096),
        ("llama-fast", 4096),
    ]
    assert models[0].to_dict()["root"] == MODEL


async def test_chat_answers_with_text_reason_and_usage() -> None:
    async with running_engine(*NAMED) as (_, server), sdk_of(server) as client:
        answer = await client.chat.completions.create(
            model="llama-fast", messages=[{"role": "user", "content": COPY}], temperature=0
        )
    assert answer.model == "llama-fast"
    assert answer.choices[0].message.content == COPY.removeprefix("Repeat: ")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_a_stream_is_the_same_text_and_ends_with_usage() -> None:
    async with (
        running_engine("--spec-method", "ngram", "--spec-tokens", "5") as (_, server),
        sdk_of(server) as client,
    ):
        whole = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": COPY}], temperature=0
        )
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": COPY}],
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks: list[ChatCompletionChunk] = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert (
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
        == whole.choices[0].message.content
    )
    assert [chunk.choices[0].finish_reason for chunk in chunks[-3:-1]] == [None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len(chunks) - 2 < whole.usage.completion_tokens, "speculation brings several tokens in one chunk"


async def test_a_stream_has_no_usage_unless_asked_or_forced() -> None:
    async def has_usage(*arguments: str) -> bool:
        async with running_engine(*arguments) as (_, server), sdk_of(server) as client:
            stream = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": COPY}], max_tokens=3, stream=True
            )
            return any([chunk.usage is not None async for chunk in stream])

    assert not await has_usage()
    assert await has_usage("--enable-force-include-usage")


async def test_usage_on_every_chunk_grows_to_the_whole() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        stream = await client.completions.create(
            model=MODEL,
            prompt=COPY,
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        )
        counts = [chunk.usage.completion_tokens async for chunk in stream if chunk.usage is not None]
    assert counts == [1, 2, 3, 4, 5, 5]


async def test_a_conversation_in_parts_finds_its_earlier_turns_in_the_cache() -> None:
    async with running_engine("--enable-prompt-tokens-details") as (_, server), sdk_of(server) as client:
        first = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": [{"type": "text", "text": COPY}]}],
            temperature=0,
        )
        second = await client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "user", "content": COPY},
                {"role": "assistant", "content": first.choices[0].message.content},
                {"role": "user", "content": "Once more"},
            ],
            temperature=0,
        )
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached is not None
    assert cached > first.usage.prompt_tokens, "the answer of the first turn is cached, too"


async def test_n_stop_seed_and_max_completion_tokens_have_their_effect() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        several = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "A story"}],
            n=3,
            seed=7,
            max_completion_tokens=9,
        )
        again = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "A story"}],
            n=3,
            seed=7,
            max_completion_tokens=9,
        )
        stopped = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": COPY}], stop=["word3", "word9"]
        )
    texts = [choice.message.content for choice in several.choices]
    assert texts == [choice.message.content for choice in again.choices]
    assert len(set(texts)) == 3
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    assert several.usage is not None
    assert several.usage.completion_tokens == 27
    assert stopped.choices[0].message.content == "word0 word1 word2 "
    assert stopped.choices[0].to_dict()["stop_reason"] == "word3"


async def test_completions_take_lists_echo_and_streams() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        several = await client.completions.create(
            model=MODEL, prompt=["Repeat: a b c", "Repeat: d e f"], n=2, echo=True, max_tokens=10
        )
        default = await client.completions.create(model=MODEL, prompt=COPY)
        ids = await client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=4)
        stream = await client.completions.create(
            model=MODEL, prompt="Repeat: a b c", max_tokens=10, stream=True
        )
        streamed = "".join([chunk.choices[0].text async for chunk in stream])
    assert [choice.text for choice in several.choices] == ["Repeat: a b ca b c"] * 2 + [
        "Repeat: d e fd e f"
    ] * 2
    assert default.choices[0].finish_reason == "length"
    assert default.usage is not None
    assert default.usage.completion_tokens == 16
    assert ids.usage is not None
    assert ids.usage.prompt_tokens == 3
    assert streamed == "a b c"


async def test_cached_prompt_tokens_are_reported_where_enabled() -> None:
    async with running_engine("--enable-prompt-tokens-details") as (_, server), sdk_of(server) as client:
        cached = []
        for salt in ("", "", "tenant"):
            answer = await client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": COPY}],
                max_tokens=2,
                extra_body={"cache_salt": salt} if salt else {},
            )
            assert answer.usage is not None
            assert answer.usage.prompt_tokens_details is not None
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
    assert cached[0] == 0
    assert cached[1] is not None
    assert cached[1] > 0
    assert cached[2] == 0


async def test_unknown_model_is_a_404() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        with pytest.raises(openai.NotFoundError) as error:
            await client.chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])
    assert error.value.body == {
        "message": "The model `other` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/chat/completions", b"{", "not valid JSON"),
        ("/v1/chat/completions", b"\xff", "not valid JSON"),
        ("/v1/chat/completions", b"[]", "must be a JSON object"),
        ("/v1/chat/completions", b"{}", "messages must be a list"),
        ("/v1/chat/completions", b'{"messages": []}', "messages must be a list"),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": 1}]}', "messages[0].content"),
        (
            "/v1/chat/completions",
            b'{"messages": [{"content": "x"}]}',
            "messages[0] must be an object with a role",
        ),
        (
            "/v1/chat/completions",
            b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            "not multimodal",
        ),
        ("/v1/completions", b"{}", "prompt must be"),
        ("/v1/completions", b'{"prompt": ""}', "prompt must be"),
        ("/v1/completions", b'{"prompt": [["x"]]}', "prompt: each entry"),
        ("/v1/completions", b'{"prompt": "x", "n": 0}', "n must be at least 1"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 0}', "max_tokens must be at least 1"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": "9"}', "max_tokens must be an integer"),
        ("/v1/completions", b'{"prompt": "x", "temperature": -1}', "temperature must be non-negative"),
        ("/v1/completions", b'{"prompt": "x", "stop": [1]}', "stop must be"),
        ("/v1/completions", b'{"prompt": "x", "stream": 1}', "stream must be true or false"),
        ("/v1/completions", b'{"prompt": "x", "stream_options": {"include_usage": true}}', "stream=True"),
        ("/v1/completions", b'{"prompt": "x", "logprobs": 2}', "logprobs is not simulated"),
        (
            "/v1/completions",
            b'{"prompt": "x", "response_format": {"type": "json_object"}}',
            "response_format",
        ),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 100}', "maximum context length is 64 tokens"),
        ("/v1/completions", b'{"prompt": "' + b"x " * 64 + b'"}', "maximum context length is 64 tokens"),
        (
            "/v1/completions",
            b'{"prompt": "x", "min_tokens": 17}',
            "min_tokens (17) is more than max_tokens (16)",
        ),
        ("/v1/completions", b'{"prompt": "x", "stream_options": 1, "stream": true}', "must be an object"),
        ("/v1/completions", b'{"prompt": "x", "model": 5}', "model must be a string"),
        ("/v1/completions", b'{"prompt": "x", "suffix": "y"}', "suffix is not supported"),
        (
            "/v1/chat/completions",
            b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}',
            "tool calls are not simulated",
        ),
        ("/tokenize", b'{"prompt": 5}', "prompt must be a string"),
    ],
)
async def test_a_bad_request_is_a_400_in_vllms_shape(path: str, body: bytes, words: str) -> None:
    async with (
        running_engine("--max-model-len", "64") as (_, server),
        aiohttp.ClientSession() as session,
        session.post(server.make_url(path), data=body) as response,
    ):
        assert response.status == 400
        error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("BadRequestError", 400)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("--max-num-queued-reqs", "max_num_queued_reqs"), ("--max-num-queued-tokens", "max_num_queued_tokens")],
)
async def test_a_queue_limit_answers_503_and_counts_it(limit: str, reason: str) -> None:
    async with running_engine(limit, "1", settings=STUCK) as (_, server), sdk_of(server) as client:
        first = asyncio.create_task(client.completions.create(model=MODEL, prompt=COPY))
        await until_running(server.make_url("/metrics"), 1)
        with pytest.raises(openai.InternalServerError) as refused:
            await client.completions.create(model=MODEL, prompt=COPY)
        assert refused.value.status_code == 503
        assert reason in str(refused.value)
        async with aiohttp.ClientSession() as session, session.get(server.make_url("/metrics")) as response:
            page = await response.text()
        assert f'vllm:admission_rejections_total{{model_name="{MODEL}",reason="{reason}"}} 1.0' in page
        first.cancel()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_place(stream: bool) -> None:
    async with running_engine(settings=STUCK) as (engine, server), aiohttp.ClientSession() as session:
        body = {"prompt": COPY, "stream": stream}
        request = asyncio.create_task(session.post(server.make_url("/v1/completions"), json=body))
        await until_running(server.make_url("/metrics"), 1)
        if stream:
            (await request).close()
        request.cancel()
        await until_running(server.make_url("/metrics"), 0)
        await engine.engine.idle()
        async with session.get(server.make_url("/metrics")) as response:
            page = await response.text()
        assert (
            f'vllm:request_success_total{{engine="0",finished_reason="abort",model_name="{MODEL}"}} 1.0'
            in page
        )


async def test_an_engine_that_stops_cuts_streams_so_that_no_client_takes_them_for_whole() -> None:
    async with running_engine(settings=STUCK) as (engine, server), sdk_of(server) as client:
        stream = await client.completions.create(model=MODEL, prompt=COPY, stream=True)
        await until_running(server.make_url("/metrics"), 1)
        engine.engine.stop()
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass


async def test_a_defect_in_the_step_loop_makes_the_engine_unhealthy_and_lets_nobody_wait() -> None:
    # A step time that is no number ends the loop as a defect in it would.
    engine = Server(config_of(), AT_ONCE)
    engine.engine.scheduler.step_time = replace(engine.config.step_time, base=cast("float", "slow"))
    server = TestServer(engine.app(), handler_cancellation=True)
    await server.start_server()
    try:
        async with sdk_of(server) as client, aiohttp.ClientSession() as session:
            with pytest.raises(openai.InternalServerError, match="stopped before the request was finished"):
                await client.completions.create(model=MODEL, prompt=COPY)
            async with session.get(server.make_url("/health")) as response:
                assert response.status == 503
    finally:
        with pytest.raises(TypeError):
            await server.close()


async def test_keys_guard_the_api_but_not_probes_and_metrics() -> None:
    async with running_engine("--api-key", "one", "two") as (_, server):
        async with sdk_of(server, api_key="wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        async with sdk_of(server, api_key="two") as client:
            assert (await client.models.list()).data
        async with aiohttp.ClientSession() as session:
            for path, status in {"/v1/models": 401, "/health": 200, "/ping": 200, "/metrics": 200}.items():
                async with session.get(server.make_url(path)) as response:
                    assert (path, response.status) == (path, status)


async def get_json(server: TestServer, path: str, body: object = None) -> dict[str, object]:
    async with aiohttp.ClientSession() as session:
        method = "GET" if body is None else "POST"
        async with session.request(method, server.make_url(path), json=body) as response:
            assert response.status == 200
            assert response.headers["X-Engine-Simulated"] == "true"
            document: dict[str, object] = await response.json()
            return document


async def test_side_endpoints_answer_as_vllms_do() -> None:
    async with running_engine("--enable-server-load-tracking", settings=STUCK) as (_, server):
        assert await get_json(server, "/version") == {"version": "0.32.0"}
        assert await get_json(server, "/load") == {"server_load": 0}
        tokens = await get_json(server, "/tokenize", {"prompt": "one two", "return_token_strs": True})
        assert tokens["count"] == 2
        assert tokens["token_strs"] == ["one", " two"]
        async with sdk_of(server) as client:
            request = asyncio.create_task(client.completions.create(model=MODEL, prompt=COPY))
            await until_running(server.make_url("/metrics"), 1)
            assert await get_json(server, "/load") == {"server_load": 1}
            request.cancel()


async def test_a_draining_or_dead_engine_is_not_healthy_and_takes_no_requests() -> None:
    dead = replace(AT_ONCE, unhealthy_after_seconds=0.0)
    for settings, draining, status in ((AT_ONCE, True, 503), (dead, False, 500)):
        async with running_engine(settings=settings) as (engine, server), sdk_of(server) as client:
            engine.draining = draining
            async with (
                aiohttp.ClientSession() as session,
                session.get(server.make_url("/health")) as response,
            ):
                assert response.status == 503
            with pytest.raises(openai.InternalServerError) as refused:
                await client.completions.create(model=MODEL, prompt="x")
            assert refused.value.status_code == status


async def test_time_scale_stretches_what_a_client_waits() -> None:
    settings = Settings(time_scale=0.5, step_base_ms=20.0)
    async with running_engine(settings=settings) as (_, server), sdk_of(server) as client:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await client.completions.create(model=MODEL, prompt=COPY, max_tokens=20)
        assert loop.time() - start >= 20 * 0.020 * 0.5
