"""Sampling honours temperature, cuts, penalties and bans, and its numbers depend on seed and position alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tierwright_worker.engine.interface import SamplingContext, SamplingParams
from tierwright_worker.engine.policies.candidates import Candidates, Row
from tierwright_worker.engine.policies.sampling import (
    Distribution,
    adjust,
    choose,
    distribution,
    logprobs,
    params_problem,
)
from tierwright_worker.engine.policies.uniforms import uniforms

LOGITS = arrays(np.float32, st.integers(1, 40), elements=st.floats(-20, 20, width=32))
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.0]),
    top_k=st.integers(-1, 45),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
)


def row(*logits: float) -> Row:
    """Logits of one position."""
    return np.array(logits, dtype=np.float32)


def of(*logits: float) -> Candidates:
    """Candidates of a whole vocabulary."""
    return Candidates.whole(row(*logits))


@given(LOGITS, PARAMS)
def test_a_distribution_sums_to_one_and_always_keeps_the_likeliest_token(
    logits: Row, params: SamplingParams
) -> None:
    found = distribution(Candidates.whole(logits), params)
    assert float(np.sum(found.probabilities)) == pytest.approx(1.0)
    assert bool(np.all(found.probabilities > 0))
    assert list(found.ids) == sorted(set(found.ids.tolist()))
    assert found.probability(int(np.argmax(logits))) > 0
    if params.top_k > 0:
        assert len(found.ids) <= params.top_k


@given(LOGITS, st.floats(0.01, 0.99))
def test_top_p_keeps_the_smallest_set_that_reaches_it(logits: Row, top_p: float) -> None:
    whole = distribution(Candidates.whole(logits), SamplingParams())
    kept = distribution(Candidates.whole(logits), SamplingParams(top_p=top_p))
    mass = [whole.probability(int(token)) for token in kept.ids]
    assert sum(mass) >= top_p - 1e-9
    assert sum(mass) - min(mass) < top_p + 1e-9


@given(LOGITS, st.floats(0, 1, exclude_max=True), PARAMS)
def test_a_pick_is_always_a_token_that_may_come(logits: Row, uniform: float, params: SamplingParams) -> None:
    candidates = Candidates.whole(logits)
    assert choose(candidates, params, uniform) in distribution(candidates, params).ids


def test_what_a_device_cut_to_its_best_samples_like_the_whole() -> None:
    logits = row(1, 5, 3, -2, 4)
    whole = Candidates.whole(logits)
    best = Candidates.best(np.array([4, 1, 2]), row(4, 5, 3), whole.log_total)
    params = SamplingParams(top_k=3)
    for uniform in np.linspace(0, 0.999, 50):
        assert choose(best, params, float(uniform)) == choose(whole, params, float(uniform))
    assert best.log_probability(2) == whole.log_probability(2)
    assert best.log_probability(0) == -math.inf
    assert best.top(2) == whole.top(2)


def test_equal_logits_are_taken_in_the_order_of_their_ids() -> None:
    assert of(1, 3, 3, 3).greedy == 1
    assert [token for token, _ in of(1, 3, 3, 3).top(2)] == [1, 2]
    assert list(distribution(of(1, 3, 3, 3), SamplingParams(top_k=2)).ids) == [1, 2]
    assert of(1, 3).top(0) == ()
    assert len(of(1, 3).top(9)) == 2


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        (SamplingParams(temperature=0), [2]),
        (SamplingParams(top_k=1), [2]),
        (SamplingParams(top_k=2), [1, 2]),
        (SamplingParams(top_k=-1), [0, 1, 2, 3]),
        (SamplingParams(min_p=0.5), [2]),
        (SamplingParams(min_p=0.3), [1, 2]),
        (SamplingParams(top_p=0.6), [2]),
        (SamplingParams(top_p=0.7), [1, 2]),
        (SamplingParams(top_p=1e-9), [2]),
    ],
)
def test_cuts_keep_what_they_say(params: SamplingParams, kept: list[int]) -> None:
    assert list(distribution(of(0, 2, 3, 1), params).ids) == kept


@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-300, 1e-8])
def test_the_smallest_of_temperatures_leaves_the_likeliest_token(temperature: float) -> None:
    for logits in ((1.0, 30.0, -2.0), (-1.0, 0.0, -300.0), (-5.0, -1.0, -math.inf)):
        found = distribution(of(*logits), SamplingParams(temperature=temperature))
        assert (list(found.ids), list(found.probabilities)) == ([1], [1.0])


def test_a_token_that_cannot_come_has_no_probability() -> None:
    found = distribution(of(0, 2, 3, 1), SamplingParams(top_k=2))
    assert found.probability(0) == 0
    assert found.probability(9) == 0


def test_the_last_edge_of_a_distribution_takes_what_rounding_leaves() -> None:
    found = Distribution(np.array([3, 7]), np.array([0.5, 0.5 - 1e-16]))
    assert found.pick(math.nextafter(1.0, 0.0)) == 7
    assert found.pick(0.0) == 3


@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 4.0])
@pytest.mark.parametrize(
    "params", [SamplingParams(top_p=0.5), SamplingParams(top_p=0.99), SamplingParams(top_k=700, top_p=0.9)]
)
def test_cuts_of_a_large_vocabulary_are_those_of_sorting_all_of_it(
    spread: float, params: SamplingParams
) -> None:
    logits = np.round(np.random.default_rng(3).normal(0, 1, 5000) * spread, 2).astype(np.float32)
    weights = np.exp(logits.astype(np.float64) - np.max(logits))
    order = np.argsort(-weights, kind="stable")[: params.top_k or None]
    sums = np.cumsum(weights[order])
    expected = order[sums - weights[order] < params.top_p * np.sum(np.sort(weights[order]))]
    found = distribution(Candidates.whole(logits), params).ids
    # One token at the very edge may differ by the rounding of two different orders of summation.
    assert abs(len(found) - len(expected)) <= 1
    assert set(found.tolist()) <= set(order[: len(expected) + 1].tolist())


def test_minus_infinity_is_never_sampled() -> None:
    candidates = of(-math.inf, 1, -math.inf)
    assert list(distribution(candidates, SamplingParams()).ids) == [1]
    assert list(distribution(candidates, SamplingParams(top_p=0.9)).ids) == [1]


def adjusted(params: SamplingParams, context: SamplingContext, *logits: float) -> list[float]:
    """What is left of logits."""
    return [float(logit) for logit in adjust(of(*logits), params, context).logits]


def test_penalties_follow_their_formulas() -> None:
    seen = SamplingContext(prompt=frozenset({0}), output={1: 2, 99: 1})
    assert adjusted(SamplingParams(presence_penalty=0.5), seen, 2, 2, 2) == [2, 1.5, 2]
    assert adjusted(SamplingParams(frequency_penalty=0.5), seen, 2, 2, 2) == [2, 1, 2]
    assert adjusted(SamplingParams(repetition_penalty=2), seen, 2, -2, 2) == [1, -4, 2]
    assert adjusted(SamplingParams(logit_bias={2: 5, 77: 1}), seen, 2, 2, 2) == [2, 2, 7]


def test_no_parameter_leaves_the_logits_untouched() -> None:
    candidates = of(1, 2)
    assert adjust(candidates, SamplingParams(), SamplingContext(output={1: 4})) is candidates


def test_adjusting_never_changes_the_model_s_own_logits() -> None:
    candidates = of(1, 2)
    after = adjust(candidates, SamplingParams(logit_bias={0: 9}), SamplingContext())
    assert candidates.logits.tolist() == [1, 2]
    assert after.log_total == candidates.log_total


def test_an_answer_cannot_end_before_its_minimum_length() -> None:
    params = SamplingParams(min_tokens=2, stop_token_ids=frozenset({0}))
    context = SamplingContext(end_tokens=frozenset({2}))
    assert adjust(of(9, 1, 8), params, context).greedy == 1
    assert adjust(of(9, 1, 8), params, replace(context, output={1: 2})).greedy == 0
    only_ends = Candidates(np.array([2]), row(8), 8.0)
    assert adjust(only_ends, params, context).greedy == 2


def test_greedy_means_the_model_s_own_choice_alone() -> None:
    assert SamplingParams(temperature=0).greedy
    assert not SamplingParams(temperature=0, frequency_penalty=0.1).greedy
    assert not SamplingParams(temperature=0, min_tokens=1).greedy
    assert not SamplingParams(temperature=0.1).greedy


def test_log_probabilities_are_those_of_the_whole_vocabulary() -> None:
    logits = row(0, 1, 2)
    expected = np.log(np.exp(logits.astype(np.float64)) / np.sum(np.exp(logits.astype(np.float64))))
    found = logprobs(logits, 0, 2)
    assert found.token == 0
    assert found.logprob == pytest.approx(float(expected[0]))
    assert [token for token, _ in found.top] == [2, 1]
    assert found.top[0][1] == pytest.approx(float(expected[2]))


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (SamplingParams(temperature=-0.1), "temperature"),
        (SamplingParams(temperature=math.nan), "temperature"),
        (SamplingParams(top_p=1.1), "top_p"),
        (SamplingParams(top_p=0), "top_p"),
        (SamplingParams(min_p=-1), "min_p"),
        (SamplingParams(presence_penalty=2.5), "presence_penalty"),
        (SamplingParams(frequency_penalty=-3), "frequency_penalty"),
        (SamplingParams(repetition_penalty=0), "repetition_penalty"),
        (SamplingParams(repetition_penalty=math.inf), "repetition_penalty"),
        (SamplingParams(repetition_penalty=1e-40), "repetition_penalty"),
        (SamplingParams(top_k=-2), "top_k"),
        (SamplingParams(max_tokens=0), "max_tokens"),
        (SamplingParams(min_tokens=-1), "min_tokens"),
        (SamplingParams(max_tokens=3, min_tokens=4), "min_tokens"),
        (SamplingParams(logit_bias={1: 101}), "logit_bias"),
    ],
)
def test_what_is_out_of_range_is_named(params: SamplingParams, field: str) -> None:
    problem = params_problem(params)
    assert problem is not None
    assert problem[0] == field
    assert problem[1]


def test_what_is_in_range_passes() -> None:
    assert params_problem(SamplingParams(logit_bias={1: -100}, top_k=-1, min_tokens=16)) is None


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**40), st.integers(1, 6))
def test_a_position_s_numbers_do_not_depend_on_how_many_are_asked_for(
    seed: int, position: int, count: int
) -> None:
    together = uniforms(seed, position, count)
    alone = [float(uniforms(seed, position + place, 1)[0]) for place in range(count)]
    assert together.tolist() == alone
    assert bool(np.all((together >= 0) & (together < 1)))


def test_seeds_and_positions_have_numbers_of_their_own() -> None:
    drawn = {float(uniforms(seed, position, 1)[0]) for seed in range(20) for position in range(20)}
    assert len(drawn) == 400
