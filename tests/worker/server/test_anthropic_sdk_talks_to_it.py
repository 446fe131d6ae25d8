"""Anthropic's own client gets messages, streams, cache counts, stops and errors as it expects them."""

from typing import Any, Literal

import anthropic
import pytest
from anthropic.types import MessageParam, TextBlock, TextBlockParam, ToolParam

from tests.worker.server.conftest import ANSWER, Running, Start, say
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC, tokens_of
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.engine.service import EngineRequest

USER: MessageParam = {"role": "user", "content": "What is the answer?"}
LONG = "A long text that is worth caching, for it is read again and again. " * 2


def text_of(message: anthropic.types.Message) -> str:
    """The text of an answer."""
    (block,) = message.content
    assert isinstance(block, TextBlock)
    return block.text


async def test_a_message_answers_with_text_and_usage(start: Start) -> None:
    client = (await start()).anthropic()
    message = await client.messages.create(model="tiny", max_tokens=100, messages=[USER])
    assert text_of(message) == ANSWER
    assert message.stop_reason == "end_turn"
    assert message.role == "assistant"
    assert message.usage.output_tokens == len(ANSWER.encode()) + 1
    assert message.usage.cache_read_input_tokens == 0
    assert message.usage.cache_creation_input_tokens == 0


@pytest.mark.parametrize("per_step", [1, 4, 100])
async def test_a_streamed_message_keeps_the_order_of_events(start: Start, per_step: int) -> None:
    client = (await start(TinyEngine(say(ANSWER), per_step=per_step))).anthropic()
    async with client.messages.stream(model="tiny", max_tokens=100, messages=[USER]) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert text_of(final) == ANSWER
    assert final.usage.output_tokens == len(ANSWER.encode()) + 1
    sent = [kind for kind in kinds if kind != "text"]
    assert sent[:2] == ["message_start", "content_block_start"]
    assert set(sent[2:-3]) == {"content_block_delta"}
    assert sent[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def test_stop_sequences_and_limits_say_why_an_answer_ended(start: Start) -> None:
    client = (await start()).anthropic()
    stopped = await client.messages.create(
        model="tiny", max_tokens=100, messages=[USER], stop_sequences=["42"]
    )
    assert text_of(stopped) == "The answer is "
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "42")
    short = await client.messages.create(model="tiny", max_tokens=5, messages=[USER])
    assert (text_of(short), short.stop_reason) == ("The a", "max_tokens")


async def test_an_answer_that_fills_the_context_says_so(start: Start) -> None:
    client = (await start(TinyEngine(say("x" * 400), max_length=100))).anthropic()
    message = await client.messages.create(model="tiny", max_tokens=5000, messages=[USER])
    assert message.stop_reason == "model_context_window_exceeded"
    assert message.usage.input_tokens + message.usage.output_tokens == 100


async def ask(
    run: Running, system: list[TextBlockParam], question: str = "Why?", user: str = "u"
) -> anthropic.types.Usage:
    """One message with system blocks."""
    message = await run.anthropic().messages.create(
        model="tiny",
        max_tokens=10,
        system=system,
        messages=[{"role": "user", "content": question}],
        metadata={"user_id": user},
    )
    return message.usage


def block(ttl: Literal["5m", "1h"] = "5m") -> TextBlockParam:
    """A long system block that is worth caching."""
    return {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": ttl}}


async def test_the_first_request_creates_and_the_second_reads(start: Start) -> None:
    run = await start()
    system = [block()]
    first = await ask(run, system)
    second = await ask(run, system, "And why not?")
    marked = len(tokens_of(f"<|im_start|>system\n{LONG}<|im_end|>\n"))
    assert first.cache_creation_input_tokens == marked // 16 * 16
    assert first.cache_read_input_tokens == 0
    assert second.cache_read_input_tokens == marked // 16 * 16
    assert second.cache_creation_input_tokens == 0
    total = first.input_tokens + (first.cache_creation_input_tokens or 0)
    assert total == len(
        tokens_of(
            f"<|im_start|>system\n{LONG}<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
        )
    )


async def test_another_tenant_never_reads_what_one_created(start: Start) -> None:
    run = await start()
    system = [block()]
    await ask(run, system, user="one")
    assert (await ask(run, system, user="two")).cache_read_input_tokens == 0
    assert (await ask(run, system, user="one")).cache_read_input_tokens != 0


async def test_lifetimes_are_counted_apart(start: Start) -> None:
    run = await start()
    usage = await ask(run, [block("1h"), block("5m")])
    assert usage.cache_creation is not None
    long, short = (
        usage.cache_creation.ephemeral_1h_input_tokens,
        usage.cache_creation.ephemeral_5m_input_tokens,
    )
    assert long >= 128
    assert short >= 112
    assert long + short == usage.cache_creation_input_tokens


async def test_a_breakpoint_on_the_tools_caches_the_tools_alone(start: Start) -> None:
    run = await start()
    tool: ToolParam = {
        "name": "look_up",
        "description": LONG,
        "input_schema": {"type": "object"},
        "cache_control": {"type": "ephemeral"},
    }
    message = await run.anthropic().messages.create(
        model="tiny",
        max_tokens=5,
        tools=[tool],
        messages=[{"role": "user", "content": LONG}],
    )
    created = message.usage.cache_creation_input_tokens or 0
    assert len(LONG) < created < len(LONG) + 160


async def test_the_automatic_breakpoint_covers_the_whole_conversation(start: Start) -> None:
    run = await start()
    body = {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": LONG}]}
    async with run.http.post(
        "/v1/messages", json=body | {"cache_control": {"type": "ephemeral"}}
    ) as response:
        usage = (await response.json())["usage"]
    assert usage["cache_creation_input_tokens"] >= len(LONG) // 16 * 16


async def test_tool_turns_become_what_templates_know(start: Start) -> None:
    seen: list[tuple[int, ...]] = []

    def answer(request: EngineRequest) -> tuple[int, ...]:
        seen.append(request.prompt)
        return tokens_of("ok")

    run = await start(TinyEngine(answer))
    await run.anthropic().messages.create(
        model="tiny",
        max_tokens=5,
        system="Be short.",
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"word": "x"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "found"}],
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ],
    )
    text = CODEC.tokenizer.decode(list(seen[0]), skip_special_tokens=False)
    assert text == (
        "<|im_start|>system\nBe short.<|im_end|>\n"
        "<|im_start|>user\nWhat is the answer?<|im_end|>\n"
        '<|im_start|>assistant\nLet me see.[call look_up {"word": "x"}]<|im_end|>\n'
        "<|im_start|>tool\nfound<|im_end|>\n"
        "<|im_start|>user\nGo on.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


async def test_a_begun_answer_is_gone_on_with(start: Start) -> None:
    seen: list[tuple[int, ...]] = []

    def answer(request: EngineRequest) -> tuple[int, ...]:
        seen.append(request.prompt)
        return tokens_of(" 42")

    client = (await start(TinyEngine(answer))).anthropic()
    await client.messages.create(
        model="tiny", max_tokens=5, messages=[USER, {"role": "assistant", "content": "It is"}]
    )
    assert CODEC.tokenizer.decode(list(seen[0]), skip_special_tokens=False).endswith(
        "<|im_start|>assistant\nIt is"
    )


async def test_tokens_are_counted_without_generating(start: Start) -> None:
    client = (await start()).anthropic()
    counted = await client.messages.count_tokens(model="tiny", messages=[USER])
    message = await client.messages.create(model="tiny", max_tokens=5, messages=[USER])
    assert counted.input_tokens == message.usage.input_tokens


async def test_models_are_listed(start: Start) -> None:
    client = (await start()).anthropic()
    assert [model.id async for model in client.models.list()] == ["tiny", "tiny-fast"]


async def test_a_full_queue_is_overloaded(start: Start) -> None:
    engine = TinyEngine(say("x" * 40), step_seconds=0.05, slots=1, limits=QueueLimits(0))
    run = await start(engine)
    async with run.anthropic().messages.stream(model="tiny", max_tokens=40, messages=[USER]) as stream:
        await anext(aiter(stream))
        with pytest.raises(anthropic.APIStatusError) as caught:
            await run.anthropic().messages.create(model="tiny", max_tokens=5, messages=[USER])
    assert caught.value.status_code == 529
    assert caught.value.response.headers["retry-after"] == "1"
    assert caught.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": None}, "max_tokens is required"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"messages": []}, "at least one message"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            "messages[0].role must be user, assistant or system",
        ),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content must be"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "'image' is not supported"),
        ({"messages": [{"role": "user", "content": "refuse me"}]}, "no such words"),
        ({"tool_choice": {"type": "any"}}, "a tool that tools does not hold: any"),
        ({"tool_choice": {"type": "always"}}, "tool_choice.type must be auto, none, any or tool"),
        ({"cache_control": {"type": "ephemeral", "ttl": "2h"}}, "ttl must be 5m or 1h"),
        ({"cache_control": {"type": "eternal"}}, "type must be ephemeral"),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
            "at most 4 blocks",
        ),
        ({"temperature": -1}, "temperature must be between"),
        ({"output_config": {"effort": "max"}}, "output_config.effort is not supported"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type must be json_schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema is required"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "wizard"}}}},
            "output_config.format.schema: Invalid type",
        ),
    ],
)
async def test_what_is_wrong_is_said_in_anthropic_s_shape(
    start: Start, change: dict[str, Any], words: str
) -> None:
    run = await start()
    body = {"model": "tiny", "max_tokens": 5, "messages": [USER]} | change
    async with run.http.post("/v1/messages", json=body) as response:
        document = await response.json()
        assert response.status == 400
    assert document["type"] == "error"
    assert document["error"]["type"] == "invalid_request_error"
    assert words in document["error"]["message"]
    assert document["request_id"] == response.headers["request-id"]
