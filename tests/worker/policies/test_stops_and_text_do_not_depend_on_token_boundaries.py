"""Text, stop strings and ends of answers come out the same however an answer is cut into tokens and steps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright_worker.engine.interface import FinishReason, SamplingParams
from tierwright_worker.engine.policies.detokenizer import IncrementalDecoder
from tierwright_worker.engine.policies.finishing import Kept, keep, room
from tierwright_worker.engine.policies.stop_strings import Released, StopMatcher

ALPHABET = "ab\n"
STOPS = st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3)


def pieces(text: str, cuts: list[int]) -> list[str]:
    """A text cut at places."""
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def cut_by_definition(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """The first position at which a stop string is complete; the longest of those complete there."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end if include else end - len(stop)], stop
    return text, None


@given(st.text(ALPHABET, max_size=24), STOPS, st.lists(st.integers(0, 24), max_size=8), st.booleans())
def test_a_text_is_cut_where_the_first_stop_string_is_complete(
    text: str, stops: list[str], cuts: list[int], include: bool
) -> None:
    matcher = StopMatcher(stops, include)
    shown, stopped = "", None
    for piece in pieces(text, cuts):
        released = matcher.push(piece)
        shown += released.text
        if released.stop is not None:
            stopped = released.stop
            break
    else:
        shown += matcher.flush()
    assert (shown, stopped) == cut_by_definition(text, stops, include)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["</end>"])
    assert matcher.push("text <") == Released("text ")
    assert matcher.push("/b> </e") == Released("</b> ")
    assert matcher.push("nd> more") == Released("", "</end>")


def test_what_was_held_back_comes_at_the_end() -> None:
    matcher = StopMatcher(["abc"])
    assert matcher.push("xab").text == "x"
    assert matcher.flush() == "ab"
    assert matcher.flush() == ""


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        StopMatcher(["a", ""])


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=10))
def test_text_equals_that_of_the_joined_bytes_and_shows_no_half_characters(
    data: bytes, cuts: list[int]
) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    tokens = [data[start:end] for start, end in pairwise(edges)]
    decoder = IncrementalDecoder(lambda token: tokens[token])
    text = "".join(decoder.push(token) for token in range(len(tokens))) + decoder.flush()
    assert text == data.decode("utf-8", "replace")


@given(st.text(max_size=20))
def test_valid_text_never_shows_a_replacement_on_the_way(text: str) -> None:
    data = text.encode("utf-8", "replace")
    decoder = IncrementalDecoder(lambda token: bytes([token]))
    shown = ""
    for byte in data:
        shown += decoder.push(byte)
        assert data.decode().startswith(shown)
    assert shown + decoder.flush() == data.decode()


END, STOP = 7, 8
PARAMS = SamplingParams(max_tokens=5, stop_token_ids=frozenset({STOP}))


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.integers(0, 4),
    st.booleans(),
)
def test_an_answer_ends_at_the_same_token_whatever_the_steps(
    tokens: list[int], cuts: list[int], min_tokens: int, ignore_eos: bool
) -> None:
    params = SamplingParams(
        max_tokens=5, min_tokens=min_tokens, ignore_eos=ignore_eos, stop_token_ids=frozenset({STOP})
    )
    whole = keep(tokens, already=0, params=params, end_tokens=frozenset({END}))
    edges = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    told: list[int] = []
    last = Kept(())
    for start, end in pairwise(edges):
        last = keep(tokens[start:end], already=len(told), params=params, end_tokens=frozenset({END}))
        told += last.tokens
        if last.reason:
            break
    assert tuple(told) == whole.tokens
    assert (last.reason, last.ended_by) == (whole.reason, whole.ended_by)
    assert len(told) <= params.max_tokens


@pytest.mark.parametrize(
    ("tokens", "already", "expected"),
    [
        ([1, 2], 0, Kept((1, 2))),
        ([1, END, 2], 0, Kept((1, END), FinishReason.STOP, END)),
        ([STOP, 2], 0, Kept((STOP,), FinishReason.STOP, STOP)),
        ([1, 2, 3], 3, Kept((1, 2), FinishReason.LENGTH)),
        ([END], 4, Kept((END,), FinishReason.STOP, END)),
        ([], 2, Kept(())),
    ],
)
def test_tokens_are_kept_up_to_the_end(tokens: list[int], already: int, expected: Kept) -> None:
    assert keep(tokens, already=already, params=PARAMS, end_tokens=frozenset({END})) == expected


def test_room_is_bounded_by_the_answer_and_by_the_context() -> None:
    assert room(already=2, used=10, context=100, max_tokens=5) == 3
    assert room(already=2, used=98, context=100, max_tokens=50) == 2
    assert room(already=6, used=98, context=100, max_tokens=5) == 0
