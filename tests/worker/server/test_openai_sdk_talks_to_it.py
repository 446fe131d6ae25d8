"""OpenAI's own client gets chat, completions, streams, usage, stops, log-probabilities and errors as it expects them."""

import math
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.worker.server.conftest import ANSWER, Start, say
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import CODEC, tokens_of
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.engine.service import EngineRequest

USER: ChatCompletionUserMessageParam = {"role": "user", "content": "What is the answer?"}


async def test_a_chat_answers_with_text_usage_and_the_reason_of_its_end(start: Start) -> None:
    client = (await start()).openai()
    answer = await client.chat.completions.create(model="tiny", messages=[USER])
    (choice,) = answer.choices
    assert choice.message.content == ANSWER
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "stop"
    assert answer.model == "tiny"
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(ANSWER.encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("per_step", [1, 3, 100])
async def test_a_streamed_chat_joins_to_the_whole_one_however_many_tokens_a_step_gives(
    start: Start, per_step: int
) -> None:
    client = (await start(TinyEngine(say(ANSWER), per_step=per_step))).openai()
    stream = await client.chat.completions.create(
        model="tiny",
        messages=[USER],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == ANSWER
    assert all("\ufffd" not in text for text in texts)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(ANSWER.encode()) + 1
    assert len({chunk.id for chunk in chunks}) == 1


async def test_without_being_asked_a_stream_holds_no_usage(start: Start) -> None:
    client = (await start()).openai()
    stream = await client.chat.completions.create(model="tiny", messages=[USER], stream=True)
    async for chunk in stream:
        assert chunk.usage is None
        assert chunk.choices


@pytest.mark.parametrize("per_step", [1, 5, 100])
async def test_stop_strings_end_an_answer_over_token_boundaries(start: Start, per_step: int) -> None:
    run = await start(TinyEngine(say(ANSWER), per_step=per_step))
    answer = await run.openai().chat.completions.create(
        model="tiny",
        messages=[USER],
        stop=["42. S", "never"],
    )
    assert answer.choices[0].message.content == "The answer is "
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].model_extra is not None
    assert answer.choices[0].model_extra["stop_reason"] == "42. S"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len("The answer is 42. S")
    if per_step < 100:
        assert run.engine.cancelled


async def test_a_stop_string_can_be_kept(start: Start) -> None:
    client = (await start()).openai()
    answer = await client.chat.completions.create(
        model="tiny",
        messages=[USER],
        stop="42",
        extra_body={"include_stop_str_in_output": True},
    )
    assert answer.choices[0].message.content == "The answer is 42"


async def test_max_tokens_cuts_and_says_length(start: Start) -> None:
    client = (await start()).openai()
    answer = await client.chat.completions.create(
        model="tiny",
        messages=[USER],
        max_completion_tokens=5,
    )
    assert answer.choices[0].message.content == "The a"
    assert answer.choices[0].finish_reason == "length"


async def test_n_answers_are_kept_apart_and_their_prompt_counts_once(start: Start) -> None:
    engine = TinyEngine(lambda request: tokens_of(f"seed {request.params.seed}"))
    client = (await start(engine)).openai()
    answer = await client.chat.completions.create(model="tiny", messages=[USER], n=3, seed=7)
    assert [choice.message.content for choice in answer.choices] == ["seed 7", "seed 8", "seed 9"]
    one = await client.chat.completions.create(model="tiny", messages=[USER], seed=7)
    assert answer.usage is not None
    assert one.usage is not None
    assert answer.usage.prompt_tokens == one.usage.prompt_tokens
    stream = await client.chat.completions.create(
        model="tiny",
        messages=[USER],
        n=2,
        seed=1,
        stream=True,
    )
    texts = ["", ""]
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == ["seed 1", "seed 2"]


async def test_without_a_seed_answers_differ(start: Start) -> None:
    client = (await start(TinyEngine(lambda request: tokens_of(str(request.params.seed))))).openai()
    texts = {
        (await client.chat.completions.create(model="tiny", messages=[USER])).choices[0].message.content
        for _ in range(3)
    }
    assert len(texts) == 3


async def test_log_probabilities_come_with_their_alternatives(start: Start) -> None:
    client = (await start(TinyEngine(say("né")))).openai()
    answer = await client.chat.completions.create(
        model="tiny",
        messages=[USER],
        logprobs=True,
        top_logprobs=2,
    )
    assert answer.choices[0].logprobs is not None
    found = answer.choices[0].logprobs.content
    assert found is not None
    assert [entry.bytes for entry in found] == [[110], [195], [169], []]
    assert found[0].token == "n"
    assert found[0].logprob == -0.25
    assert [top.logprob for top in found[0].top_logprobs] == [-0.25, -1.5]
    assert all(math.isfinite(entry.logprob) for entry in found)


async def test_completions_take_text_lists_and_tokens_and_echo_them(start: Start) -> None:
    client = (await start(TinyEngine(lambda request: request.prompt[::-1]))).openai()
    one = await client.completions.create(model="tiny", prompt="abc", echo=True)
    assert one.choices[0].text == "abccba"
    several = await client.completions.create(model="tiny", prompt=["ab", "cd"])
    assert [choice.text for choice in several.choices] == ["ba", "dc"]
    tokens = await client.completions.create(model="tiny", prompt=list(tokens_of("xyz")), echo=True)
    assert tokens.choices[0].text == "xyzzyx"
    stream = await client.completions.create(model="tiny", prompt="abc", echo=True, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "abccba"


async def test_completions_log_probabilities_point_into_the_text(start: Start) -> None:
    client = (await start(TinyEngine(say("abc")))).openai()
    answer = await client.completions.create(model="tiny", prompt="x", logprobs=2)
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.tokens is not None
    assert found.tokens[:3] == ["a", "b", "c"]
    assert found.text_offset == [0, 1, 2, 3]
    assert found.token_logprobs == [-0.25] * 4
    stream = await client.completions.create(model="tiny", prompt="x", logprobs=1, stream=True)
    offsets = [offset async for chunk in stream for offset in (chunk.choices[0].logprobs.text_offset or [])]  # type: ignore[union-attr]
    assert offsets == [0, 1, 2, 3]


async def test_sixteen_tokens_are_the_default_of_completions(start: Start) -> None:
    client = (await start()).openai()
    answer = await client.completions.create(model="tiny", prompt="x")
    assert answer.choices[0].text == ANSWER[:16]


async def test_tools_go_through_the_template(start: Start) -> None:
    seen: list[tuple[int, ...]] = []

    def answer(request: EngineRequest) -> tuple[int, ...]:
        seen.append(request.prompt)
        return tokens_of("ok")

    run = await start(TinyEngine(answer))
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "x"}'}}
    messages: Any = [
        {"role": "developer", "content": "Be short."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "found"}]},
    ]
    tools: Any = [tool]
    await run.openai().chat.completions.create(model="tiny", messages=messages, tools=tools)
    text = CODEC.tokenizer.decode(list(seen[0]), skip_special_tokens=False)
    assert text.startswith("<|im_start|>tools{")
    assert "look_up" in text
    assert "<|im_start|>system\nBe short.<|im_end|>" in text
    assert '[call look_up {"word": "x"}]' in text
    assert "<|im_start|>tool\nfound<|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n")


async def test_a_second_equal_prompt_is_read_from_the_cache_by_its_own_tenant_alone(start: Start) -> None:
    client = (await start()).openai()

    async def cached(salt: str) -> int | None:
        answer = await client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "long enough for some pages of sixteen tokens"}],
            extra_body={"cache_salt": salt},
        )
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens_details.cached_tokens

    assert await cached("a") == 0
    assert await cached("a") == 48
    assert await cached("b") == 0


async def test_models_are_listed_and_found(start: Start) -> None:
    client = (await start()).openai()
    assert [model.id async for model in client.models.list()] == ["tiny", "tiny-fast"]
    assert (await client.models.retrieve("tiny-fast")).id == "tiny-fast"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")
    with pytest.raises(openai.NotFoundError, match="'other' does not exist"):
        await client.chat.completions.create(model="other", messages=[USER])


async def test_a_full_queue_answers_503_with_retry_after_and_disturbs_nobody(start: Start) -> None:
    engine = TinyEngine(say("x" * 40), step_seconds=0.02, slots=1, limits=QueueLimits(1))
    run = await start(engine)
    client = run.openai()
    stream = await client.chat.completions.create(model="tiny", messages=[USER], stream=True)
    first = await anext(aiter(stream))
    assert first.choices
    with pytest.raises(openai.InternalServerError) as caught:
        await client.chat.completions.create(model="tiny", messages=[USER], n=3)
    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["retry-after"]) >= 1
    assert "max_num_queued_reqs" in str(caught.value)
    rest = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert rest.endswith("x" * 30)


async def test_every_answer_has_a_request_id(start: Start) -> None:
    client = (await start()).openai()
    raw = await client.chat.completions.with_raw_response.create(
        model="tiny",
        messages=[USER],
        extra_headers={"X-Request-Id": "mine-1"},
    )
    assert raw.headers["x-request-id"] == "mine-1"
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="tiny", messages=[])
    assert caught.value.request_id
