"""Guesses copy what stood before at constant cost per token; their length follows acceptance and measured step times."""

import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright_worker.engine.interface import AcceptanceState, DraftLength, SpeculationLimits
from tierwright_worker.engine.policies.draft_length import (
    PROBE_AFTER,
    choose_draft_length,
    expected_tokens,
    observe,
)
from tierwright_worker.engine.policies.ngram import NgramDrafter, NgramLimits

TOKENS = st.lists(st.integers(0, 3), max_size=60)
COSTS = {1: 1.0, 3: 1.1, 5: 1.2, 9: 1.4}
LIMITS = SpeculationLimits(max_tokens=8, disable_above_batch=4)


def drafter(tokens: Sequence[int], limits: NgramLimits | None = None) -> NgramDrafter:
    """A drafter that has seen tokens."""
    made = NgramDrafter(limits or NgramLimits())
    made.extend(tokens)
    return made


@given(TOKENS, st.lists(st.integers(0, 60), max_size=6), st.integers(0, 9))
def test_a_guess_does_not_depend_on_how_the_tokens_came(
    tokens: list[int], cuts: list[int], limit: int
) -> None:
    whole = drafter(tokens)
    split = drafter(())
    edges = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    for start, end in pairwise(edges):
        split.extend(tokens[start:end])
        split.propose(limit)
    assert split.propose(limit) == whole.propose(limit)
    assert len(split) == len(tokens)


@given(TOKENS, st.integers(0, 9))
def test_a_guess_holds_only_tokens_that_were_seen_and_no_more_than_asked(
    tokens: list[int], limit: int
) -> None:
    guess = drafter(tokens).propose(limit)
    assert len(guess) <= limit
    assert set(guess) <= set(tokens)


@given(TOKENS)
def test_when_the_newest_tokens_stood_before_there_is_a_guess(tokens: list[int]) -> None:
    found = drafter(tokens)
    newest = tokens[-2:]
    stood = any(tokens[place : place + 2] == newest for place in range(len(tokens) - 2))
    if len(tokens) >= 2 and stood:
        assert found.propose(1)
        assert found.agreed >= 2


def test_the_place_whose_past_agrees_longest_is_followed() -> None:
    # "1 2" stood twice; behind "9 1 2" came 5, behind "8 1 2", more recent, came 6.
    assert drafter([9, 1, 2, 5, 8, 1, 2, 6, 9, 1, 2]).propose(1) == (5,)
    assert drafter([8, 1, 2, 5, 9, 1, 2, 6, 9, 1, 2]).propose(1) == (6,)
    assert drafter([1, 2, 5, 7, 1, 2, 6, 7, 7, 1, 2]).propose(1) == (6,)


def test_a_replaced_word_does_not_end_a_copy() -> None:
    text = list(range(10, 40))
    made = drafter([*text, *text[:10]])
    made.extend([99])
    assert made.agreed == 0
    assert made.propose(3) == (21, 22, 23)
    made.extend([21])
    assert made.propose(2) == (22, 23)


def test_a_place_is_given_up_after_too_many_tokens_that_differ() -> None:
    text = list(range(10, 40))
    made = drafter([*text, *text[:5]])
    made.extend([91, 92, 93])
    assert made.propose(1)
    made.extend([94])
    assert made.propose(1) == ()
    stiff = drafter([*text, *text[:5], 91], NgramLimits(resume=0))
    assert stiff.propose(1) == ()


def test_a_copy_that_meets_its_own_end_goes_round() -> None:
    assert drafter([5, 6, 5, 6, 5]).propose(5) == (6, 5, 6, 5, 6)
    assert drafter([7, 7, 7]).propose(4) == (7, 7, 7, 7)


def test_nothing_is_guessed_where_nothing_matches_or_nothing_is_wanted() -> None:
    assert drafter([]).propose(4) == ()
    assert drafter([1, 2, 3, 4]).propose(4) == ()
    assert drafter([1, 2, 1, 2]).propose(0) == ()


def copied(drafter_limits: NgramLimits, source: Sequence[int], answer: Sequence[int]) -> int:
    """Steps in which an answer comes, with eight drafts a step, each verified against it."""
    made = drafter(source, drafter_limits)
    told = steps = 0
    while told < len(answer):
        guess = made.propose(8)
        run = 0
        while run < len(guess) and told + run < len(answer) and guess[run] == answer[told + run]:
            run += 1
        new = answer[told : told + run + 1]
        made.extend(new)
        told += len(new)
        steps += 1
    return steps


def test_going_on_behind_a_replaced_word_saves_steps_in_a_rename() -> None:
    # A text of 40 different "words" of three tokens with a name every few words, which the answer replaces.
    text = [
        token
        for word in range(40)
        for token in (100 + word, 200 + word * 7 % 31, 7 if word % 4 == 0 else 300 + word)
    ]
    renamed = [8 if token == 7 else token for token in text]
    assert copied(NgramLimits(), text, renamed) < copied(NgramLimits(resume=0), text, renamed)


def count_lines(tokens: int) -> int:
    """Lines of Python that the drafter runs for a text: a measure of work that a busy machine does not change."""
    made = NgramDrafter()
    lines = 0

    def trace(*_: object) -> object:
        nonlocal lines
        lines += 1
        return trace

    text = [(place * place) % 17 for place in range(tokens)]
    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        made.extend(text)
        made.propose(8)
    finally:
        sys.settrace(before)
    return lines


def test_the_cost_per_token_does_not_grow_with_the_length() -> None:
    assert count_lines(8000) < 2.2 * count_lines(4000)


@pytest.mark.parametrize(
    "wrong", [{"shortest": 0}, {"shortest": 3, "longest": 2}, {"places": 0}, {"resume": -1}]
)
def test_impossible_lengths_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="n-gram"):
        NgramLimits(**wrong)


def after(*steps: tuple[int, int]) -> AcceptanceState:
    """What is known after steps of (drafted, accepted)."""
    state = AcceptanceState()
    for drafted, accepted in steps:
        state = observe(state, proposed=8, drafted=drafted, accepted=accepted)
    return state


def choose(state: AcceptanceState, decoding: int = 1, costs: dict[int, float] | None = None) -> DraftLength:
    """The length for a state."""
    return choose_draft_length(state, decoding=decoding, limits=LIMITS, step_cost=costs or COSTS)


def test_copies_get_long_drafts_and_prose_gets_none() -> None:
    assert choose(after(*[(8, 8)] * 5)) == DraftLength(8, "pays")
    assert choose(after(*[(8, 0)] * 30)) == DraftLength(0, "plain")
    assert 0 < choose(after(*[(8, 2)] * 30)).tokens < 8


def test_where_more_rows_cost_too_much_nothing_is_drafted() -> None:
    assert choose(after(*[(8, 4)] * 9), costs={1: 1.0, 9: 9.0}) == DraftLength(0, "plain")


def test_a_gain_within_the_noise_does_not_switch() -> None:
    certain = AcceptanceState(1e9, 1e9, 1e9, 1e9)
    assert choose(certain, costs={1: 1.0, 2: 1.99}) == DraftLength(0, "plain")
    assert choose(certain, costs={1: 1.0, 2: 1.9}) == DraftLength(1, "pays")


def test_one_shape_for_all_steps_always_drafts_what_it_has_rows_for() -> None:
    assert choose(after(*[(8, 0)] * 30), costs={9: 1.0}) == DraftLength(8, "pays")


def test_a_large_batch_and_a_tier_without_speculation_draft_nothing() -> None:
    assert choose(after((8, 8)), decoding=5) == DraftLength(0, "batch")
    off = SpeculationLimits(max_tokens=0)
    assert choose_draft_length(AcceptanceState(), decoding=1, limits=off, step_cost=COSTS) == DraftLength(
        0, "off"
    )


def test_the_tier_s_limit_holds() -> None:
    limits = SpeculationLimits(max_tokens=3)
    found = choose_draft_length(after(*[(8, 8)] * 9), decoding=9, limits=limits, step_cost=COSTS)
    assert found == DraftLength(3, "pays")


def test_a_request_that_turns_repetitive_is_noticed_by_probes() -> None:
    state = after(*[(8, 0)] * 30)
    for _ in range(PROBE_AFTER):
        assert choose(state).reason == "plain"
        state = observe(state, proposed=8, drafted=0, accepted=0)
    assert choose(state) == DraftLength(2, "probe")
    assert choose(observe(state, proposed=8, drafted=2, accepted=0)).reason == "plain"
    assert choose(state, costs={1: 1.0}) == DraftLength(0, "plain")


def test_a_request_that_turns_repetitive_is_noticed_without_drafting_at_all() -> None:
    state = after(*[(8, 0)] * 30)
    steps = 0
    while not choose(state).tokens:
        state = observe(state, proposed=8, drafted=0, accepted=0, agreed=True)
        steps += 1
    assert steps <= 8
    assert choose(state).reason == "pays"


def test_nothing_proposed_teaches_nothing() -> None:
    assert observe(AcceptanceState(), proposed=0, drafted=0, accepted=0) == AcceptanceState()


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=20), st.integers(0, 7))
def test_more_drafts_never_promise_fewer_tokens(steps: list[tuple[int, int]], drafts: int) -> None:
    state = after(*[(drafted, min(drafted, accepted)) for drafted, accepted in steps])
    fewer, more = expected_tokens(state, drafts), expected_tokens(state, drafts + 1)
    assert 1 <= fewer < more <= drafts + 2


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.integers(0, 8))
def test_expected_tokens_follow_the_formula(first: float, further: float, drafts: int) -> None:
    state = AcceptanceState(1e12, first * 1e12, 1e12, further * 1e12)
    closed = 1 + first * (1 - further**drafts) / (1 - further)
    assert expected_tokens(state, drafts) == pytest.approx(closed, rel=1e-6)


@pytest.mark.parametrize(("proposed", "drafted", "accepted"), [(1, 2, 0), (2, 1, 2), (1, 1, -1)])
def test_an_impossible_outcome_is_refused(proposed: int, drafted: int, accepted: int) -> None:
    with pytest.raises(ValueError, match="accepted <= drafted <= proposed"):
        observe(AcceptanceState(), proposed=proposed, drafted=drafted, accepted=accepted)


def test_step_times_must_be_known() -> None:
    with pytest.raises(ValueError, match="no step time"):
        choose_draft_length(AcceptanceState(), decoding=1, limits=LIMITS, step_cost={})
