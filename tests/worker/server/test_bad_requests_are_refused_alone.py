"""Whatever a client sends, it gets a clear 4xx with the field's name, and the next request is served."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.server.conftest import Running, Start
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC, TEMPLATE, WITHOUT_TEMPLATE
from tierwright_worker.server import anthropic_requests, openai_requests
from tierwright_worker.server.app import ServerSettings
from tierwright_worker.server.errors import ApiError
from tierwright_worker.server.fields import parse_object
from tierwright_worker.tokenizer.chat_template import ChatTemplate
from tierwright_worker.tokenizer.text import TextCodec

USER = {"role": "user", "content": "x"}
CALLING = TextCodec(CODEC.tokenizer, ChatTemplate(f"{TEMPLATE}{{# <tool_call> #}}", {}), {})


async def refused(run: Running, path: str, body: object, status: int = 400) -> dict[str, Any]:
    """The error of a request; another one is still served behind it."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with run.http.post(path, data=data) as response:
        document: dict[str, Any] = await response.json()
        assert response.status == status, document
    async with run.http.post("/v1/completions", json={"prompt": "x"}) as response:
        assert response.status == 200
    error: dict[str, Any] = document["error"]
    assert error["message"]
    assert error["code"] == status
    return error


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"messages": []}, "messages", "at least one message"),
        ({"messages": "hello"}, "messages", "must be a list"),
        ({"messages": ["hello"]}, "messages[0]", "must be an object"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "must be a string"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", "must be one of"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "a string or a list of parts"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
            "text",
        ),
        ({"messages": [{"role": "user", "content": "refuse me"}]}, "messages", "no such words"),
        ({"max_tokens": 0}, "max_tokens", "at least 1, got 0"),
        ({"max_tokens": -5}, "max_tokens", "at least 1"),
        ({"max_tokens": 10**9}, "max_tokens", "only"),
        ({"max_tokens": 10**30}, "max_tokens", "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens", "must be an integer, got 'many'"),
        ({"max_tokens": True}, "max_tokens", "must be an integer"),
        ({"temperature": -1}, "temperature", "between 0 and 100"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"top_p": 0}, "top_p", "above 0"),
        ({"top_p": 2}, "top_p", "between 0 and 1"),
        ({"top_k": -2}, "top_k", "at least -1"),
        ({"presence_penalty": 3}, "presence_penalty", "between -2 and 2"),
        ({"repetition_penalty": 0}, "repetition_penalty", "between 0.01 and 100"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens", "between 0 and max_tokens"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "keys must be token ids"),
        ({"logit_bias": {"1": 500}}, "logit_bias", "between -100 and 100"),
        ({"logit_bias": [1]}, "logit_bias", "must be an object"),
        ({"n": 0}, "n", "at least 1"),
        ({"n": 10**6}, "n", "at most 64"),
        ({"stop": ""}, "stop", "non-empty string"),
        ({"stop": [1]}, "stop", "non-empty string"),
        ({"stop": ["x"] * 65}, "stop", "at most 64 entries are allowed, got 65"),
        ({"stop": ["y", "x" * 1001]}, "stop", "at most 1000 characters"),
        ({"stop_token_ids": [-1]}, "stop_token_ids", "list of token ids"),
        ({"stop_token_ids": [5] * 1025}, "stop_token_ids", "at most 1024"),
        ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias", "at most 1024"),
        ({"seed": 2**70}, "seed", "seed"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_options": {}}, "stream_options", "only be given with stream"),
        ({"top_logprobs": 3}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "at most 20"),
        ({"prompt_logprobs": 1}, "prompt_logprobs", "not supported"),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type",
            "must be text, json_object or json_schema",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "is required"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "wizard"}}}},
            "response_format",
            "Invalid type: wizard",
        ),
        (
            {"response_format": {"type": "json_object"}, "min_tokens": 3, "max_tokens": 9},
            "min_tokens",
            "cannot be combined",
        ),
        (
            {"response_format": {"type": "json_object"}, "ignore_eos": True},
            "ignore_eos",
            "cannot be combined",
        ),
        ({"tool_choice": "required"}, "tool_choice", "a tool that tools does not hold: any"),
        ({"tools": "all"}, "tools", "must be a list"),
        (
            {"tools": [{"function": {"name": "f", "parameters": "x"}}]},
            "tools[0].function.parameters",
            "must be an object, got 'x'",
        ),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name", "must not be empty"),
        (
            {"tools": [{"function": {"name": "f", "parameters": {"$defs": "x"}}}], "tool_choice": "required"},
            "tools",
            "$defs of 'f' must be an object",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}},
            "response_format",
            "cannot be followed: NoExtensionBias",
        ),
        ({"model": 5}, "model", "must be a string"),
        ({"cache_salt": 5}, "cache_salt", "must be a string"),
        ({"continue_final_message": True}, "continue_final_message", "role assistant"),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
            "not valid JSON",
        ),
    ],
)
async def test_a_chat_with_a_wrong_field_names_it(
    start: Start, change: dict[str, Any], param: str, words: str
) -> None:
    error = await refused(await start(codec=CALLING), "/v1/chat/completions", {"messages": [USER]} | change)
    assert error["param"] == param
    assert words in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "prompt", "non-empty string"),
        ({"prompt": ""}, "prompt", "non-empty string"),
        ({"prompt": []}, "prompt", "non-empty string"),
        ({"prompt": [1, -1]}, "prompt", "each entry"),
        ({"prompt": [[]]}, "prompt", "each entry"),
        ({"prompt": [10**6]}, "prompt", "is not one of the model's"),
        ({"prompt": ["x"] * 257}, "prompt", "at most 256 prompts"),
        ({"prompt": "x" * 600}, None, "the model's context is 512"),
        ({"prompt": "x", "max_tokens": 600}, "max_tokens", "only 511 tokens are left"),
        ({"prompt": "x", "min_tokens": 17}, "min_tokens", "between 0 and max_tokens (16)"),
        ({"prompt": "x", "suffix": "y"}, "suffix", "not supported"),
        ({"prompt": "x", "echo": True, "logprobs": 1}, "logprobs", "echo with logprobs"),
    ],
)
async def test_a_completion_with_a_wrong_field_names_it(
    start: Start, body: dict[str, Any], param: str | None, words: str
) -> None:
    error = await refused(await start(), "/v1/completions", body)
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{\xff}",
        b'{"prompt": NaN}',
        b"[" * 100_000,
        b'{"prompt": "\\ud800"}',
    ],
)
async def test_what_is_no_json_object_is_refused(start: Start, body: bytes) -> None:
    assert (await refused(await start(), "/v1/completions", body))["type"] == "BadRequestError"


async def test_a_body_that_is_too_large_is_refused_unread(start: Start) -> None:
    run = await start(settings=ServerSettings(("tiny",), largest_body=1000))
    error = await refused(run, "/v1/completions", {"prompt": "x" * 2000}, status=413)
    assert "larger than 1000 bytes" in error["message"]


async def test_what_is_not_there_is_said_in_json(start: Start) -> None:
    run = await start()
    async with run.http.get("/v2/none") as response:
        assert response.status == 404
        assert "/v2/none" in (await response.json())["error"]["message"]
    async with run.http.get("/v1/completions") as response:
        assert response.status == 405
        assert response.headers["allow"] == "POST"


async def test_a_model_without_a_template_still_completes(start: Start) -> None:
    run = await start(codec=WITHOUT_TEMPLATE)
    error = await refused(run, "/v1/chat/completions", {"messages": [USER]})
    assert "no chat template" in error["message"]


async def test_tokens_and_text_go_back_and_forth(start: Start) -> None:
    run = await start()
    async with run.http.post("/tokenize", json={"prompt": "Grüße 🚀", "return_token_strs": True}) as response:
        found = await response.json()
    assert found["count"] == len("Grüße 🚀".encode())
    assert found["max_model_len"] == 512
    assert found["token_strs"][0] == "G"
    async with run.http.post("/detokenize", json={"tokens": found["tokens"]}) as response:
        assert (await response.json())["prompt"] == "Grüße 🚀"
    async with run.http.post("/tokenize", json={"messages": [USER]}) as response:
        assert (await response.json())["count"] > 1
    await refused(run, "/detokenize", {"tokens": [10**6]})
    await refused(run, "/tokenize", {"prompt": 5})


async def test_keys_guard_everything_but_probes_and_metrics(start: Start) -> None:
    run = await start(settings=ServerSettings(("tiny",), api_keys=("one", "two")))
    for path in ("/health", "/metrics", "/version", "/load", "/ping"):
        async with run.http.get(path) as response:
            assert response.status == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": ""}, {"Authorization": "Bearer ü"}):
        async with run.http.get("/v1/models", headers=headers) as response:
            assert response.status == 401
    assert await status_of(run, b"Authorization: Bearer \xff\xfe") == b"401"
    for headers in ({"Authorization": "Bearer two"}, {"x-api-key": "one"}):
        async with run.http.get("/v1/models", headers=headers) as response:
            assert response.status == 200


async def status_of(run: Running, header: bytes) -> bytes:
    """The status of a request with a header that no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(run.url.rsplit(":", 1)[1]))
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return line.split()[1]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_is_not_compressed_as_it_says_is_refused(start: Start, encoding: str) -> None:
    run = await start()
    headers = {"content-encoding": encoding}
    async with run.http.post("/v1/completions", data=b"not compressed", headers=headers) as response:
        assert response.status == 400
        assert "cannot be read" in (await response.json())["error"]["message"]
    assert (await run.openai().completions.create(model="tiny", prompt="x")).choices


async def test_more_answers_than_the_server_can_ever_hold_are_no_reason_to_come_back(start: Start) -> None:
    engine = TinyEngine(lambda _: [], slots=2)
    engine.facts = replace(engine.facts, most_held=10)
    error = await refused(await start(engine), "/v1/completions", {"prompt": ["x"] * 6, "n": 2})
    assert "12 answers" in error["message"]
    assert "at most 10" in error["message"]
    engine.facts = replace(engine.facts, most_waiting_tokens=20)
    error = await refused(await start(engine), "/v1/completions", {"prompt": "x" * 7, "n": 5})
    assert "3 would have to wait, with 21 tokens" in error["message"]


async def test_a_bug_ends_one_request_and_is_logged(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def answer(request: object) -> list[int]:
        calls.append(request)
        if len(calls) == 1:
            raise ZeroDivisionError
        return []

    run = await start(TinyEngine(answer))
    error = await refused(run, "/v1/completions", {"prompt": "x"}, status=500)
    assert "its log says more" in error["message"]
    assert "ZeroDivisionError" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "messages",
        "prompt",
        "max_tokens",
        "n",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "logit_bias",
        "tools",
        "tool_choice",
        "system",
        "seed",
        "stop_token_ids",
        "logprobs",
        "top_logprobs",
        "response_format",
        "cache_control",
        "metadata",
        "chat_template_kwargs",
        "parallel_tool_calls",
        "output_config",
    ]
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "x"])},
    optional={
        "text": JSON,
        "id": JSON,
        "name": JSON,
        "input": JSON,
        "tool_use_id": JSON,
        "content": JSON,
        "cache_control": JSON,
    },
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]) | JSON},
        optional={
            "content": JSON | st.lists(PARTS, max_size=3),
            "tool_calls": JSON | st.lists(JSON, max_size=2),
        },
    ),
    max_size=3,
)


@given(st.dictionaries(NAMES, JSON, max_size=4), st.none() | MESSAGES)
def test_no_body_makes_a_parser_fail_otherwise_than_with_an_api_error(
    body: dict[str, Any], messages: Any
) -> None:
    if messages is not None:
        body = {"model": "tiny", "max_tokens": 5, **body, "messages": messages}
    for parse in (
        openai_requests.chat_request,
        openai_requests.completion_request,
        anthropic_requests.messages_request,
    ):
        with suppress(ApiError):
            parse(body)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_json_reader_fail_otherwise(data: bytes) -> None:
    with suppress(ApiError):
        parse_object(data)
