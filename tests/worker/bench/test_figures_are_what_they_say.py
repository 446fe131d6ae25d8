"""Ratios, the best of several passes, sets of prompts, agreement and memory, on numbers that can be checked by hand."""

import math
from dataclasses import replace

import pytest

from tierwright_worker.bench.asking import Answer
from tierwright_worker.bench.figures import (
    GearRuns,
    agreement,
    memory_ratio,
    set_rates,
    step_ratio,
)
from tierwright_worker.bench.process import ProcessFacts, read_memory
from tierwright_worker.bench.prompts import Kind, Prompt
from tierwright_worker.bench.replay import TokenAgreement
from tierwright_worker.bench.report import (
    TARGETS,
    Gathered,
    ProcessRuns,
    StepSeconds,
    agreement_lines,
    as_json,
    figures_of,
    sets_table,
    table,
)


def answer(tokens: int, decode_seconds: float, *, first_tokens: int = 1, steps: int = 0) -> Answer:
    """An answer that arrived at 0 and whose first step ended at 1."""
    return Answer(
        id="any",
        tokens=tuple(range(tokens)),
        arrived=0.0,
        first=1.0,
        first_tokens=first_tokens,
        last=1.0 + decode_seconds,
        steps=steps or tokens,
    )


EDITS = [Prompt("one", Kind.EDIT, "a", 64), Prompt("two", Kind.EDIT, "b", 64)]
RUNS = GearRuns(
    fast={"one": [answer(11, 2.0, steps=5), answer(11, 1.0, steps=5)], "two": [answer(31, 3.0, steps=10)]},
    plain={"one": [answer(11, 4.0), answer(11, 5.0)], "two": [answer(31, 6.0)]},
    loaded={"one": [answer(11, 20.0)], "two": [answer(31, 30.0)]},
)


def test_a_set_counts_every_token_once_and_each_prompts_best_pass() -> None:
    rates = set_rates(RUNS, EDITS)[Kind.EDIT]
    # Seconds per token: fast 0.1 and 0.1, plain 0.4 and 0.2, loaded 2 and 1; weighted with 11 and 31 tokens.
    assert rates.fast == pytest.approx(10.0)
    assert rates.plain == pytest.approx(42 / (11 * 0.4 + 31 * 0.2))
    assert rates.loaded == pytest.approx(42 / (11 * 2.0 + 31 * 1.0))
    assert rates.speedup == pytest.approx((11 * 0.4 + 31 * 0.2) / 4.2)
    assert rates.over_loaded == pytest.approx((11 * 2.0 + 31 * 1.0) / 4.2)
    assert rates.worst == pytest.approx(2.0)
    assert rates.best == pytest.approx(4.0)
    assert rates.tokens_per_step == pytest.approx(42 / 15)
    assert (rates.prompts, rates.tokens) == (2, 42)


def test_reading_the_prompt_counts_for_whole_answers_alone() -> None:
    rates = set_rates(RUNS, EDITS)[Kind.EDIT]
    assert rates.end_to_end == pytest.approx(((1 + 4) + (1 + 6)) / ((1 + 1) + (1 + 3)))


def test_tokens_of_the_first_step_are_left_out_of_the_rate() -> None:
    runs = GearRuns(
        fast={"one": [answer(21, 1.0, first_tokens=11)]},
        plain={"one": [answer(21, 2.0)]},
        loaded={"one": [answer(21, 2.0)]},
    )
    rates = set_rates(runs, EDITS[:1])[Kind.EDIT]
    assert rates.fast == pytest.approx(10.0)
    assert rates.plain == pytest.approx(10.0)


def test_an_answer_of_one_step_is_in_no_rate() -> None:
    runs = replace(RUNS, fast={**RUNS.fast, "one": [answer(4, 0.0, first_tokens=4)]})
    assert set_rates(runs, EDITS)[Kind.EDIT].prompts == 1
    with pytest.raises(ValueError, match="no edit prompt"):
        set_rates(runs, EDITS[:1])


def test_one_other_token_in_any_pass_is_a_disagreement() -> None:
    same = agreement(RUNS.plain, RUNS.fast)
    assert same.all
    assert (same.same, same.of, same.tokens) == (2, 2, 1.0)
    other = replace(RUNS.fast["one"][1], tokens=(*range(10), 99))
    found = agreement(RUNS.plain, {**RUNS.fast, "one": [RUNS.fast["one"][0], other]})
    assert not found.all
    assert found.differing == ("one",)
    assert (found.same, found.of) == (1, 2)
    # Ten of the first answer's eleven tokens stand before the difference, and all 31 of the second.
    assert found.tokens == pytest.approx(41 / 42)


def test_steps_and_memory_are_compared_at_their_best() -> None:
    assert step_ratio([3.0, 2.6, 9.0], [2.0, 4.0]) == pytest.approx(1.3)
    assert memory_ratio(resident=1000, cache=200, weights=500) == pytest.approx(1.6)


def test_memory_is_read_from_the_kernels_page() -> None:
    page = "Name:\tpython\nVmPeak:\t  900 kB\nVmHWM:\t  700 kB\nVmRSS:\t  600 kB\nRssAnon:\t  500 kB\n"
    assert read_memory(page) == (700 * 1024, 600 * 1024, 500 * 1024)


def test_every_figure_has_a_target_and_none_is_invented() -> None:
    kinds = {
        Kind.EDIT: set_rates(RUNS, EDITS)[Kind.EDIT],
        Kind.COPY: set_rates(RUNS, EDITS)[Kind.EDIT],
        Kind.PROSE: set_rates(RUNS, EDITS)[Kind.EDIT],
    }
    whole = Gathered(
        sets=kinds,
        plain=agreement(RUNS.plain, RUNS.fast),
        loaded=agreement(RUNS.plain, RUNS.loaded),
        steps=StepSeconds(9, 512, (0.03,), (0.02,)),
        process=ProcessRuns(
            (ProcessFacts(9.0, 920, 800, 700, pages=2), ProcessFacts(8.0, 1000, 1, 1)), 100, 10, 400
        ),
        cache=TokenAgreement("int8", 99, 100),
    )
    figures = figures_of(whole)
    assert figures.keys() == TARGETS.keys()
    assert figures["step9_over_step1"] == pytest.approx(1.5)
    assert figures["warm_ready_seconds"] == 8.0
    assert figures["rss_over_weights"] == pytest.approx(2.0)
    assert figures["identical_greedy"] is True
    assert figures_of(Gathered()) == {}
    assert figures_of(Gathered(steps=whole.steps)).keys() == {"step9_over_step1"}
    stored = as_json(whole, {"passes": 1})
    assert stored["figures"] == figures
    assert stored["measured"]["sets"]["edit"]["tokens"] == 42
    assert agreement_lines(whole) == [
        "answers that are the same, fast and plain: 2 of 2; tokens before they part: 100.00%",
        "answers that are the same, loaded and plain: 2 of 2; tokens before they part: 100.00%",
        "tokens that stay the most probable ones with int8 keys and values: 99.00% of 100",
    ]
    assert agreement_lines(Gathered()) == []


def test_a_missed_target_shows_in_the_table() -> None:
    lines = table({"edit_speedup": 1.99, "copy_speedup": 2.5, "identical_greedy": False})
    assert [line.split()[0] for line in lines[1:]] == ["edit_speedup", "copy_speedup", "identical_greedy"]
    assert "MISSED" in lines[1]
    assert "MISSED" not in lines[2]
    assert "MISSED" in lines[3]
    assert len(sets_table(set_rates(RUNS, EDITS))) == 2


@pytest.mark.parametrize(
    ("key", "met", "missed"),
    [("step9_over_step1", 1.3, 1.31), ("prose_ratio", 0.95, 0.94), ("identical_greedy", True, False)],
)
def test_targets_have_a_direction(key: str, met: float, missed: float) -> None:
    assert TARGETS[key].met(met)
    assert not TARGETS[key].met(missed)
    assert key == "identical_greedy" or not TARGETS[key].met(math.nan)
