"""Requests that are rare and legal are served: thinking blocks, empty results, templates with opinions, usage in every chunk."""

from collections.abc import Sequence
from typing import Any

import anthropic
import pytest

from tests.worker.server.conftest import ANSWER, Start, say
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC
from tierwright_worker.engine.service import EngineRequest
from tierwright_worker.server.anthropic_requests import messages_request
from tierwright_worker.server.asked import Conversation, Mark
from tierwright_worker.server.errors import ApiError
from tierwright_worker.server.prompting import context_limit, read_prompt
from tierwright_worker.tokenizer.chat_template import ChatTemplate
from tierwright_worker.tokenizer.text import TextCodec

LIMIT = context_limit(512)
STRICT = """{%- for message in messages -%}{{ message.role }}: {{ message.content }}
{% endfor %}{%- if messages[-1].role != 'user' %}{{ raise_exception('the last one must be of the user') }}{% endif %}"""


def messages(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A body of the Messages API."""
    return {"model": "tiny", "max_tokens": 5, "messages": list(turns), **more}


def read(body: dict[str, Any]) -> Sequence[Any]:
    """The conversation of a body."""
    (prompt,) = messages_request(body).prompts
    assert isinstance(prompt, Conversation)
    return [dict(message) for message in prompt.messages]


def test_thinking_is_left_out_and_results_may_be_empty() -> None:
    found = read(
        messages(
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": []},
        )
    )
    assert found == [
        {"role": "assistant", "content": "a"},
        {"role": "tool", "tool_call_id": "t", "content": ""},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ""},
    ]


def test_text_before_and_behind_a_result_stays_in_its_order() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    found = read(
        messages(
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, result, {"type": "text", "text": "b"}],
            }
        )
    )
    assert [(message["role"], message["content"]) for message in found] == [
        ("user", "a"),
        ("tool", "r"),
        ("user", "b"),
    ]


def test_a_result_that_is_no_text_is_refused() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}
    with pytest.raises(ApiError, match=r"messages\[0\].content\[0\].content\[0\].type must be text"):
        messages_request(messages({"role": "user", "content": [block]}))


def test_no_tools_are_shown_when_none_may_be_called() -> None:
    body = messages(
        {"role": "user", "content": "x"},
        tools=[{"name": "f", "input_schema": {}}],
        tool_choice={"type": "none"},
    )
    (prompt,) = messages_request(body).prompts
    assert isinstance(prompt, Conversation)
    assert prompt.tools == ()


def codec(template: str) -> TextCodec:
    """The tiny tokenizer with another template."""
    return TextCodec(CODEC.tokenizer, ChatTemplate(template, {}), {})


def test_a_mark_that_the_template_cannot_end_at_caches_nothing_and_fails_nothing() -> None:
    turns = ({"role": "assistant", "content": "a"}, {"role": "user", "content": "b"})
    conversation = Conversation(turns, parts=(("a",), ("b",)), marks=(Mark(0, 0, 300.0), Mark(1, 0, 300.0)))
    read = read_prompt(conversation, codec(STRICT), LIMIT)
    assert [point.tokens for point in read.breakpoints] == [0, len("assistant: a\nuser: b\n")]


def test_a_template_that_says_nothing_is_refused() -> None:
    with pytest.raises(ApiError, match="empty prompt"):
        read_prompt(
            Conversation(({"role": "user", "content": "x"},)), codec("{% if false %}{% endif %}"), LIMIT
        )


def test_a_template_that_does_not_end_is_stopped() -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}"
    with pytest.raises(ApiError, match="chat template"):
        read_prompt(Conversation(({"role": "user", "content": "x"},)), codec(endless), LIMIT)


async def test_usage_comes_with_every_chunk_when_asked_for(start: Start) -> None:
    client = (await start(TinyEngine(say("abc")))).openai()
    stream = await client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "x"}],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    )
    counts = [chunk.usage.completion_tokens async for chunk in stream if chunk.usage]
    assert counts == sorted(counts)
    assert counts[-1] == 4
    assert len(counts) >= 4


async def test_an_answer_without_a_word_is_an_answer(start: Start) -> None:
    run = await start(TinyEngine(say("")))
    whole = await run.openai().chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}]
    )
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("", "stop")
    async with run.anthropic().messages.stream(
        model="tiny", max_tokens=5, messages=[{"role": "user", "content": "x"}]
    ) as stream:
        assert (await stream.get_final_message()).stop_reason == "end_turn"


async def test_the_death_of_the_engine_fails_a_whole_message(start: Start) -> None:
    run = await start(TinyEngine(say(ANSWER), step_seconds=0.05))

    async def ask() -> None:
        run.engine.dies_with = "the device is gone"
        await run.anthropic().messages.create(
            model="tiny", max_tokens=50, messages=[{"role": "user", "content": "x"}]
        )

    with pytest.raises(anthropic.InternalServerError, match="the device is gone"):
        await ask()


async def test_tokens_past_the_tokenizer_have_no_text_but_a_name(start: Start) -> None:
    def answer(_: EngineRequest) -> list[int]:
        return [5000, 65]

    client = (await start(TinyEngine(answer))).openai()
    found = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}], logprobs=True, top_logprobs=1
    )
    logprobs = found.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert logprobs.content[0].token == "<token 5000>"
    assert logprobs.content[0].bytes == []
