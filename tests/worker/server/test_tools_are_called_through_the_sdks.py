"""Calls of tools reach both official SDKs as their own objects, whole and streamed, in each format that templates teach."""

import json
from typing import Any

import openai
import pytest
from tokenizers import AddedToken, Tokenizer

from tests.worker.server.conftest import Start, say
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC, TEMPLATE
from tierwright_worker.engine.service import EngineRequest
from tierwright_worker.tokenizer.chat_template import ChatTemplate
from tierwright_worker.tokenizer.text import TextCodec

USER: Any = [{"role": "user", "content": "What is x?"}]
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}
TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}]
ANTHROPIC_TOOLS: Any = [{"name": "look_up", "input_schema": SCHEMA}]
CALL = '{"name": "look_up", "arguments": {"word": "ü"}}'
HERMES_ANSWER = f"Let me see.\n<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>"


def codec(mark: str) -> TextCodec:
    """The tiny tokenizer with a template that teaches a format."""
    return TextCodec(CODEC.tokenizer, ChatTemplate(f"{TEMPLATE}{{# {mark} #}}", {}), {})


@pytest.mark.parametrize("per_step", [1, 7, 1000])
async def test_a_chat_answers_with_text_and_calls(start: Start, per_step: int) -> None:
    run = await start(TinyEngine(say(HERMES_ANSWER), per_step=per_step), codec=codec("<tool_call>"))
    answer = await run.openai().chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    calls: Any = choice.message.tool_calls
    assert [call.function.name for call in calls] == ["look_up", "look_up"]
    assert [json.loads(call.function.arguments) for call in calls] == [{"word": "ü"}] * 2
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("per_step", [1, 7, 1000])
async def test_a_streamed_chat_gives_the_same_calls(start: Start, per_step: int) -> None:
    run = await start(TinyEngine(say(HERMES_ANSWER), per_step=per_step), codec=codec("<tool_call>"))
    async with run.openai().chat.completions.stream(model="tiny", messages=USER, tools=TOOLS) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    (choice,) = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    calls: Any = choice.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"word": "ü"}] * 2
    assert [call.index for call in calls] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_answers_with_blocks_of_both_kinds(start: Start, stream: bool) -> None:
    run = await start(TinyEngine(say(HERMES_ANSWER), per_step=3), codec=codec("<tool_call>"))
    client = run.anthropic()
    asked: Any = {"model": "tiny", "max_tokens": 300, "messages": USER, "tools": ANTHROPIC_TOOLS}
    if stream:
        async with client.messages.stream(**asked) as events:
            kinds = [event.type async for event in events]
            message = await events.get_final_message()
        assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    else:
        message = await client.messages.create(**asked)
    assert message.stop_reason == "tool_use"
    text, *calls = message.content
    assert text.type == "text"
    assert text.text == "Let me see."
    assert [call.type for call in calls] == ["tool_use", "tool_use"]
    assert [call.input for call in calls if call.type == "tool_use"] == [{"word": "ü"}] * 2


async def test_a_number_longer_than_machines_count_comes_through_as_it_was_written(start: Start) -> None:
    call = '<tool_call>{"name": "look_up", "arguments": {"n": 123456789012345678901234567890}}</tool_call>'
    run = await start(TinyEngine(say(call)), codec=codec("<tool_call>"))
    answer = await run.openai().chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
    (made,) = answer.choices[0].message.tool_calls or []
    assert made.type == "function"
    assert "123456789012345678901234567890" in made.function.arguments
    message = await run.anthropic().messages.create(
        model="tiny", max_tokens=300, messages=USER, tools=ANTHROPIC_TOOLS
    )
    (block,) = message.content
    assert block.type == "tool_use"
    assert "n" in block.input


async def test_a_message_of_calls_alone_has_no_empty_text(start: Start) -> None:
    run = await start(TinyEngine(say(f"<tool_call>{CALL}</tool_call>")), codec=codec("<tool_call>"))
    asked: Any = {"model": "tiny", "max_tokens": 300, "messages": USER, "tools": ANTHROPIC_TOOLS}
    whole = await run.anthropic().messages.create(**asked)
    async with run.anthropic().messages.stream(**asked) as events:
        streamed = await events.get_final_message()
    assert [block.type for block in whole.content] == ["tool_use"]
    assert [block.type for block in streamed.content] == ["tool_use"]


async def test_a_call_goes_back_with_its_result(start: Start) -> None:
    """What the SDK got can be sent again as the conversation's history."""
    seen: list[str] = []

    def answer(request: EngineRequest) -> tuple[int, ...]:
        seen.append(CODEC.tokenizer.decode(list(request.prompt), skip_special_tokens=False))
        return say("done" if len(seen) > 1 else f"<tool_call>{CALL}</tool_call>")(request)  # type: ignore[return-value]

    client = (await start(TinyEngine(answer), codec=codec("<tool_call>"))).openai()
    first = await client.chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
    message = first.choices[0].message
    assert message.tool_calls
    turns: Any = [
        *USER,
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "a letter"},
    ]
    last = await client.chat.completions.create(model="tiny", messages=turns, tools=TOOLS)
    assert last.choices[0].message.content == "done"
    assert '[call look_up {"word": "ü"}]' in seen[1]
    assert "<|im_start|>tool\na letter" in seen[1]


async def test_marks_that_are_special_tokens_are_seen_and_ids_fit_the_template(start: Start) -> None:
    tokenizer = Tokenizer.from_str(CODEC.tokenizer.to_str())
    tokenizer.add_special_tokens([AddedToken("[TOOL_CALLS]", special=True)])
    own = TextCodec(tokenizer, ChatTemplate(f"{TEMPLATE}{{# [TOOL_CALLS] #}}", {}), {})
    tokens = own.encode(f"[TOOL_CALLS] [{CALL}]", add_special_tokens=False)
    run = await start(TinyEngine(lambda _: tokens), codec=own)
    answer = await run.openai().chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "look_up"
    assert len(call.id) == 9
    assert call.id.isalnum()
    plain = await run.openai().chat.completions.create(model="tiny", messages=USER)
    assert plain.choices[0].message.content == f" [{CALL}]"
    assert plain.choices[0].finish_reason == "stop"


async def test_one_call_at_most_where_only_one_is_wanted(start: Start) -> None:
    run = await start(TinyEngine(say(HERMES_ANSWER)), codec=codec("<tool_call>"))
    answer = await run.openai().chat.completions.create(
        model="tiny", messages=USER, tools=TOOLS, parallel_tool_calls=False
    )
    assert len(answer.choices[0].message.tool_calls or []) == 1
    message = await run.anthropic().messages.create(
        model="tiny",
        max_tokens=300,
        messages=USER,
        tools=ANTHROPIC_TOOLS,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )
    assert [block.type for block in message.content] == ["text", "tool_use"]


async def test_without_tools_the_same_words_are_text(start: Start) -> None:
    run = await start(TinyEngine(say(HERMES_ANSWER)), codec=codec("<tool_call>"))
    for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        answer = await run.openai().chat.completions.create(model="tiny", messages=USER, **more)
        assert answer.choices[0].message.content == HERMES_ANSWER
        assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "must be function"),
        ({"tools": [{"function": {}}]}, "tools[0].function.name", "must be a string"),
        ({"tools": TOOLS, "tool_choice": "always"}, "tool_choice", "none, auto, required"),
        ({"tools": TOOLS, "tool_choice": {"function": {}}}, "tool_choice.function.name", "must be a string"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
            "tool_choice",
            "does not hold: other",
        ),
        (
            {"tools": TOOLS, "tool_choice": "required", "response_format": {"type": "json_object"}},
            "tool_choice",
            "no other format",
        ),
        ({"tools": TOOLS, "tool_choice": "required", "ignore_eos": True}, "ignore_eos", "cannot be combined"),
        (
            {
                "tools": [{"function": {"name": "f", "parameters": {"type": "wizard"}}}],
                "tool_choice": "required",
            },
            "tools",
            "Invalid type",
        ),
        (
            {
                "tools": [
                    {"function": {"name": "f", "parameters": {"$defs": {"a": {"type": "string"}}}}},
                    {"function": {"name": "g", "parameters": {"$defs": {"a": {"type": "number"}}}}},
                ],
                "tool_choice": "required",
            },
            "tools",
            "mean different things by",
        ),
        ({"functions": [{"name": "f"}]}, "functions", "not supported"),
    ],
)
async def test_tools_that_cannot_be_honoured_are_refused(
    start: Start, change: dict[str, Any], param: str, words: str
) -> None:
    client = (await start(codec=codec("<tool_call>"))).openai()
    with pytest.raises(openai.BadRequestError, match=words) as caught:
        await client.chat.completions.create(model="tiny", messages=USER, extra_body=change)
    assert caught.value.param == param


async def test_a_call_that_no_format_is_known_for_cannot_be_forced(start: Start) -> None:
    run = await start()
    with pytest.raises(openai.BadRequestError, match="teaches no format of calls"):
        await run.openai().chat.completions.create(
            model="tiny", messages=USER, tools=TOOLS, tool_choice="required"
        )


async def test_a_template_that_knows_no_tools_refuses_them(start: Start) -> None:
    own = TextCodec(CODEC.tokenizer, ChatTemplate("{{ messages[0].content }}", {}), {})
    run = await start(codec=own)
    with pytest.raises(openai.BadRequestError, match="knows no tools"):
        await run.openai().chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
