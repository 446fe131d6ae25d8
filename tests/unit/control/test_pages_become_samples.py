"""Two pages of a pod become the sample that the autoscaler learns from; objectives that a page cannot resolve are told."""

import pytest

from tests.unit.observe.engine_page import page
from tierwright.capacity.samples import Judged
from tierwright.control.pod_samples import LatencyObjectives, sample_of, unresolved
from tierwright.observe.metrics import parse

OBJECTIVES = LatencyObjectives(first_token=0.5, per_token=0.05)
BEFORE = parse(page())
AFTER = parse(
    page(
        running=5,
        waiting=4,
        finished=50,
        first_tokens=(12, 34, 46, 52, 54),
        per_output=(25, 44, 50, 50),
        prompt_tokens=54_000,
        cached_tokens=6_000,
        output_tokens=10_000,
        inter_token=(200.0, 9_900),
        steps=(60_000, 2_400),
    )
)


def test_a_sample_of_ten_seconds() -> None:
    sample = sample_of(BEFORE, AFTER, seconds=10.0, age=500.0, objectives=OBJECTIVES)
    assert (sample.seconds, sample.age) == (10.0, 500.0)
    assert (sample.arrivals, sample.running, sample.waiting, sample.prefilled) == (15, 5, 4, 10)
    assert (sample.prompt_tokens, sample.cached_tokens, sample.output_tokens) == (10_000, 2_000, 2_000)
    assert sample.steps == 400
    assert sample.token_seconds == pytest.approx(40 / 2000)
    assert sample.context_tokens == 0.25 * 1600
    assert sample.first_token == Judged(10, 6)
    assert sample.per_token == Judged(10, 1)


def test_what_a_page_does_not_tell_is_unknown() -> None:
    bare = parse(
        "\n".join(line for line in page().splitlines() if "seconds" not in line and "cache" not in line)
    )
    sample = sample_of(bare, bare, seconds=10.0, age=0.0, objectives=OBJECTIVES)
    assert sample.token_seconds is None
    assert sample.context_tokens is None
    assert sample.first_token is None
    assert sample.prefilled is None


def test_no_token_has_no_pace() -> None:
    assert sample_of(BEFORE, BEFORE, seconds=10.0, age=0.0, objectives=OBJECTIVES).token_seconds is None


def test_what_is_not_promised_is_not_judged() -> None:
    promised = LatencyObjectives(first_token=None, per_token=None)
    sample = sample_of(BEFORE, AFTER, seconds=10.0, age=0.0, objectives=promised)
    assert sample.first_token is sample.per_token is None
    assert unresolved(AFTER, promised) == ()


def test_an_objective_between_two_bounds_is_told_with_both() -> None:
    assert unresolved(AFTER, OBJECTIVES) == ()
    assert unresolved(AFTER, LatencyObjectives(first_token=0.505, per_token=0.0495)) == ()
    (sentence,) = unresolved(AFTER, LatencyObjectives(first_token=0.7, per_token=0.05))
    assert "timeToFirstToken" in sentence
    assert "0.5 s and 1 s" in sentence
    assert unresolved(parse(""), OBJECTIVES) == ()
