"""A request of megabytes is refused or served while others go on: the loop is not held up, and memory is not filled."""

import asyncio
import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.server.conftest import Start
from tests.worker.server.tiny_model import CODEC
from tierwright_worker.tokenizer import text
from tierwright_worker.tokenizer.text import TooManyTokensError

MANY = 300_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}] * (MANY // 2)}]},
        ),
        ("/v1/completions", {"prompt": "x", "stop": [f"{at}" for at in range(MANY)]}),
        ("/detokenize", {"tokens": [5] * (3 * MANY)}),
    ],
)
async def test_others_are_answered_while_a_long_body_is_read(
    start: Start, path: str, body: dict[str, object]
) -> None:
    run = await start()
    data = json.dumps(body).encode()
    gaps = [0.0]

    async def watch() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    async with run.http.post(path, data=io.BytesIO(data)) as response:
        await response.read()
        assert response.status in (200, 400)
    took = time.monotonic() - began
    watching.cancel()
    assert max(gaps) < max(took / 2, 0.05), (max(gaps), took)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize"])
async def test_a_text_far_beyond_the_context_is_refused_before_all_of_it_is_tokens(
    start: Start, path: str
) -> None:
    run = await start()
    long = "x" * 4_000_000
    body = {"messages": [{"role": "user", "content": long}]} if "chat" in path else {"prompt": long}
    async with run.http.post(path, data=io.BytesIO(json.dumps(body).encode())) as response:
        assert response.status == 400
        message = (await response.json())["error"]["message"]
    assert "the prompt has more than" in message


@given(st.text(max_size=300), st.integers(1, 60))
def test_a_text_is_refused_exactly_where_it_has_too_many_tokens(content: str, most: int) -> None:
    whole = CODEC.encode(content, add_special_tokens=False)
    if len(whole) <= most:
        assert CODEC.encode(content, add_special_tokens=False, most=most) == whole
        return
    with pytest.raises(TooManyTokensError) as refused:
        CODEC.encode(content, add_special_tokens=False, most=most)
    assert refused.value.count in (None, len(whole))


def test_what_no_piece_shows_to_be_too_long_is_counted_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_PIECE", 10)
    content = "x" * 100
    with pytest.raises(TooManyTokensError) as refused:
        CODEC.encode(content, add_special_tokens=False, most=10)
    assert refused.value.count == 100
