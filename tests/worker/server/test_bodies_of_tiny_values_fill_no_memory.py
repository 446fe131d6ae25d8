"""A body of millions of tiny values is refused before any of them is made; long texts and lists of tokens are not."""

import io
import json
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.server.conftest import Start
from tierwright_worker.server.errors import ApiError
from tierwright_worker.server.fields import parse_object
from tierwright_worker.server.json_size import MOST_VALUES, has_too_many_values

MIB = 1 << 20
WHOLE = 28 * MIB
SEEDS = [b"{},", b'{"a":1},', b"[],", b"1,", b'"",', b'{"a":"\\""},', b'"\\\\",']


def filled(seed: bytes) -> bytes:
    """A valid body of 28 MiB of nothing else."""
    return b'{"messages":[' + seed * (WHOLE // len(seed)) + b"0]}"


@pytest.mark.parametrize("seed", SEEDS, ids=bytes.decode)
def test_it_is_refused_at_the_cost_of_its_own_text(seed: bytes) -> None:
    body = filled(seed)
    tracemalloc.start()
    try:
        with pytest.raises(ApiError, match="more than 1,048,576 values") as refused:
            parse_object(body)
        assert tracemalloc.get_traced_memory()[1] < 2.1 * len(body)
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413


@pytest.mark.parametrize("seed", SEEDS, ids=bytes.decode)
def test_the_most_that_is_read_stays_below_what_is_said(seed: bytes) -> None:
    """Each entry with a name of its own: then not even the names are shared."""
    each = seed.count(b",") + seed.count(b"[") + 4 * seed.count(b"{")
    entries = [seed.replace(b'"a"', b'"name of entry %07d"' % at) for at in range((MOST_VALUES - 10) // each)]
    body = b'{"messages":[' + b"".join(entries) + b"0]}"
    del entries
    tracemalloc.start()
    try:
        parse_object(body)
        assert tracemalloc.get_traced_memory()[1] < 200 * MIB
    finally:
        tracemalloc.stop()


def test_texts_are_as_long_as_they_like_and_a_million_tokens_fit() -> None:
    text = '{"a": [1, 2]}, \\" ' * (20 * MIB // 18)
    assert parse_object(orjson.dumps({"prompt": text}))["prompt"] == text
    tokens = list(range(1_000_000))
    assert parse_object(orjson.dumps({"tokens": tokens}))["tokens"] == tokens


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab\\"{[,:]}\n\u00e4', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('a\\",{', max_size=3), inner, max_size=4)
    ),
    max_leaves=30,
)


def between(value: Any) -> int:
    """Commas and openings of a document, an object's four times, counted on the values themselves."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    opening = 4 if isinstance(value, dict) else 1
    return 0 if inner is None else opening + max(0, len(inner) - 1) + sum(map(between, inner))


@given(VALUES, st.integers(0, 40), st.booleans())
def test_exactly_what_stands_between_values_is_counted(value: Any, most: int, spaces: bool) -> None:
    body = json.dumps(value, indent=1 if spaces else None, ensure_ascii=False).encode()
    assert has_too_many_values(body, most) == (between(value) > most)


@given(st.binary(max_size=60), st.integers(0, 5))
def test_what_is_no_json_is_answered_as_well(body: bytes, most: int) -> None:
    assert has_too_many_values(body, most) in (True, False)


async def test_the_server_says_so_in_both_apis_and_goes_on(start: Start) -> None:
    run = await start()
    for path in ("/v1/chat/completions", "/v1/messages"):
        async with run.http.post(path, data=io.BytesIO(filled(b"{},"))) as response:
            assert response.status == 413
            assert "values" in (await response.json())["error"]["message"]
    async with run.http.post("/v1/completions", json={"prompt": "x"}) as response:
        assert response.status == 200
