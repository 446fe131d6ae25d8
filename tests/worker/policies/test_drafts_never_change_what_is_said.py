"""Acceptance gives the tokens, or the distribution, of decoding without drafts: exactly, and by chi-square tests."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats  # type: ignore[import-untyped]

from tierwright_worker.engine.interface import Acceptance, Logits, SamplingContext, SamplingParams
from tierwright_worker.engine.policies.acceptance import (
    LayeredRule,
    accept_greedy,
    accept_layered,
    accept_sampled,
)
from tierwright_worker.engine.policies.candidates import Candidates, Row
from tierwright_worker.engine.policies.sampling import adjust, choose, distribution
from tierwright_worker.engine.policies.uniforms import uniforms

VOCABULARY = 6
DRAWS = 4000
# One test in a thousand fails by chance; the seeds are fixed, so these never do unless the code changes.
SIGNIFICANCE = 1e-3

TOKENS = st.integers(0, VOCABULARY - 1)


def logits_for(prefix: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """A tiny model: its logits depend on all tokens before."""
    state = 0
    for token in prefix:
        state = (state * 31 + token + 7) % 101
    return np.random.default_rng(state).normal(0, 1.5, VOCABULARY).astype(np.float32)


def rows_for(prefix: Sequence[int], draft: Sequence[int]) -> Logits:
    """What one step returns: a row after each prefix of the draft."""
    return np.stack([logits_for([*prefix, *draft[:count]]) for count in range(len(draft) + 1)])


def plain(prefix: Sequence[int], count: int, params: SamplingParams, context: SamplingContext) -> list[int]:
    """Decoding one token at a time."""
    tokens: list[int] = []
    output = Counter(context.output)
    for position in range(count):
        now = SamplingContext(context.prompt, dict(output), context.end_tokens)
        logits = logits_for([*prefix, *tokens])[None]
        (token,) = accept_sampled((), logits, params, position=position, context=now).tokens
        tokens.append(token)
        output[token] += 1
    return tokens


@given(st.lists(TOKENS, max_size=8), st.lists(TOKENS, min_size=9, max_size=9))
def test_greedy_acceptance_is_the_longest_equal_run(draft: list[int], best: list[int]) -> None:
    verdict = accept_greedy(draft, best)
    assert verdict.tokens[:-1] == tuple(draft[: verdict.accepted])
    assert verdict.tokens == tuple(best[: verdict.accepted + 1])
    assert verdict.accepted == len(draft) or draft[verdict.accepted] != best[verdict.accepted]


@given(
    st.integers(0, 2**32),
    st.lists(st.lists(TOKENS, max_size=4), min_size=12, max_size=12),
    st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    st.sampled_from([0.0, 0.8]),
    st.integers(0, 3),
)
def test_with_equal_seeds_any_drafts_give_the_text_of_plain_sampling(
    seed: int, drafts: list[list[int]], temperature: float, penalty: float, min_tokens: int
) -> None:
    params = SamplingParams(
        temperature=temperature, seed=seed, frequency_penalty=penalty, min_tokens=min_tokens, top_p=0.95
    )
    ends = frozenset({2})
    told: list[int] = []
    for draft in drafts:
        context = SamplingContext(output=Counter(told), end_tokens=ends)
        verdict = accept_sampled(draft, rows_for(told, draft), params, position=len(told), context=context)
        told += verdict.tokens
    assert told == plain((), len(told), params, SamplingContext(end_tokens=ends))


def assert_same_law(first: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    """A chi-square test over outcomes; rare ones are pooled."""
    total = sum(first.values())
    observed, wanted = [0.0], [0.0]
    for outcome, probability in expected.items():
        if probability * total < 8:
            observed[0] += first[outcome]
            wanted[0] += probability * total
        else:
            observed.append(first[outcome])
            wanted.append(probability * total)
    assert sum(observed) == total, "an outcome came that plain sampling never gives"
    start = 0 if wanted[0] > 0 else 1
    scale = sum(observed[start:]) / sum(wanted[start:])
    result = stats.chisquare(observed[start:], [value * scale for value in wanted[start:]])
    assert result.pvalue > SIGNIFICANCE


def pair_law(params: SamplingParams) -> dict[tuple[int, ...], float]:
    """The exact distribution of the first two tokens of plain sampling."""
    law: dict[tuple[int, ...], float] = {}
    first = distribution(adjust(Candidates.whole(logits_for(())), params, SamplingContext()), params)
    for token in range(VOCABULARY):
        context = SamplingContext(output={token: 1})
        second = distribution(adjust(Candidates.whole(logits_for((token,))), params, context), params)
        for other in range(VOCABULARY):
            law[(token, other)] = first.probability(token) * second.probability(other)
    return law


PARAMS = [
    SamplingParams(),
    SamplingParams(temperature=0.6),
    SamplingParams(temperature=1.4, top_k=4),
    SamplingParams(top_p=0.8),
    SamplingParams(min_p=0.1, frequency_penalty=0.7),
]


def two_tokens(
    seed: int, params: SamplingParams, step: Callable[[list[int], SamplingParams], Acceptance]
) -> tuple[int, ...]:
    """The first two tokens of an answer that is decoded with drafts."""
    told: list[int] = []
    own = replace(params, seed=seed)
    while len(told) < 2:
        told += step(told, own).tokens
    return tuple(told[:2])


@pytest.mark.parametrize("params", PARAMS)
def test_guessed_drafts_keep_the_distribution_of_plain_sampling(params: SamplingParams) -> None:
    def step(told: list[int], own: SamplingParams) -> Acceptance:
        draft = (3, 1)
        return accept_sampled(
            draft,
            rows_for(told, draft),
            own,
            position=len(told),
            context=SamplingContext(output=Counter(told)),
        )

    assert_same_law(Counter(two_tokens(seed, params, step) for seed in range(DRAWS)), pair_law(params))


def drawn_by(model: Callable[[Sequence[int]], Row], told: list[int], own: SamplingParams) -> list[int]:
    """What a draft model proposes: its own choice, made with the numbers of the positions that it drafts for."""
    draft: list[int] = []
    for _ in range(2):
        (number,) = uniforms(own.seed, len(told) + len(draft), 1)
        context = SamplingContext(output=Counter([*told, *draft]))
        candidates = adjust(Candidates.whole(model([*told, *draft])), own, context)
        draft.append(choose(candidates, own, float(number)))
    return draft


def other_model(prefix: Sequence[int]) -> Row:
    """A model that is wrong in its own way."""
    noise = np.random.default_rng(len(prefix) + 1000).normal(0, 1, VOCABULARY)
    return (logits_for(prefix) + noise).astype(np.float32)


def verified(model: Callable[[Sequence[int]], Row], told: list[int], own: SamplingParams) -> Acceptance:
    """What the target makes of a draft model's proposal."""
    draft = drawn_by(model, told, own)
    context = SamplingContext(output=Counter(told))
    return accept_sampled(draft, rows_for(told, draft), own, position=len(told), context=context)


@pytest.mark.parametrize("params", PARAMS)
def test_drafts_drawn_with_the_same_numbers_keep_the_distribution_of_plain_sampling(
    params: SamplingParams,
) -> None:
    accepted = 0

    def step(told: list[int], own: SamplingParams) -> Acceptance:
        nonlocal accepted
        verdict = verified(other_model, told, own)
        accepted += verdict.accepted
        return verdict

    assert_same_law(Counter(two_tokens(seed, params, step) for seed in range(DRAWS)), pair_law(params))
    assert accepted > 0.4 * DRAWS


@pytest.mark.parametrize("params", PARAMS)
def test_a_draft_model_that_equals_the_target_is_always_accepted(params: SamplingParams) -> None:
    for seed in range(100):
        assert verified(logits_for, [1], replace(params, seed=seed)).accepted == 2


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="2 drafts need 3 rows, got 2"):
        accept_greedy([1, 2], [1, 2])
    with pytest.raises(ValueError, match="1 drafts need 2 rows, got 1"):
        accept_sampled([1], rows_for((), ()), SamplingParams(), position=0)


SURE = np.array([[5, 4.9, -9, -9], [5, 4.9, -9, -9]], dtype=np.float32)
UNSURE = np.zeros((2, 4), dtype=np.float32)
RULE = LayeredRule(entropy=0.8, share=0.5)


def test_layered_verification_bends_only_where_the_model_is_sure() -> None:
    params = SamplingParams(temperature=0)
    bent = accept_layered([1], SURE, params, position=0, rule=RULE)
    assert bent == Acceptance(1, (1, 0), bent=1)
    assert accept_layered([1], UNSURE, params, position=0, rule=RULE) == Acceptance(0, (0,))
    assert accept_layered([2], SURE, params, position=0, rule=RULE) == Acceptance(0, (0,))
    assert accept_layered([0], SURE, params, position=0, rule=RULE) == Acceptance(1, (0, 0))
    assert accept_layered([77], SURE, params, position=0, rule=RULE) == Acceptance(0, (0,))


def test_layered_verification_never_passes_a_banned_end() -> None:
    params = SamplingParams(temperature=0, min_tokens=4)
    context = SamplingContext(end_tokens=frozenset({1}))
    verdict = accept_layered([1], SURE, params, position=0, context=context, rule=RULE)
    assert verdict == Acceptance(0, (0,))


@given(
    arrays(np.float32, (3, 5), elements=st.floats(-5, 5, width=32)),
    st.lists(st.integers(0, 4), min_size=2, max_size=2),
)
def test_without_low_entropy_layered_verification_is_exact(logits: Logits, draft: list[int]) -> None:
    params = SamplingParams(temperature=1, seed=3)
    never = LayeredRule(entropy=0.0, share=1.0)
    assert accept_layered(draft, logits, params, position=1, rule=never) == accept_sampled(
        draft, logits, params, position=1
    )


@pytest.mark.parametrize(("entropy", "share"), [(-1, 0.5), (1, 0), (1, 1.1)])
def test_a_rule_outside_its_range_is_refused(entropy: float, share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        LayeredRule(entropy, share)
