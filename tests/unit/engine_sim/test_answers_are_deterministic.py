"""The same prompt and seed give the same text in every simulator, and copy requests are answered with the copy."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.engine_sim.generation import Choice, choices_of, cut_at_stop
from dev.engine_sim.kv_cache import KvCache
from dev.engine_sim.protocol import parse_chat
from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.settings import Settings
from dev.engine_sim.text import block_hashes, draftable, pieces_of
from tests.unit.engine_sim.running import config_of
from tests.unit.engine_sim.virtual_time import run_to_end

NGRAM = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}')
FAST = ("--max-num-seqs", "8", *NGRAM)
CODE = "".join(f"def step_{i}(value, limit):\n    return min(value + {i}, limit)\n\n\n" for i in range(12))
# Frozen prompts: the draws behind acceptance are a function of the text, so these ratios never change by chance.
COPIES = [f"Give back file {number}:\n```python\n{CODE}```" for number in range(4)]
COPIES += json.loads(
    (Path(__file__).parents[3] / "dev" / "demo" / "prompts.json").read_text(encoding="utf-8")
)


def ask(text: str, *arguments: str, **fields: object) -> tuple[Choice, ...]:
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
    return choices_of(parse_chat(body), "id", config_of(*arguments), Settings())


@given(st.text(max_size=200))
def test_pieces_joined_are_the_text(text: str) -> None:
    assert "".join(pieces_of(text)) == text


@pytest.mark.parametrize(
    "text", ["What is a river?", f"Rewrite this file:\n```python\n{CODE}```", "", "Ünïcödé 漢字?"]
)
def test_fast_and_standard_tiers_answer_with_the_same_text(text: str) -> None:
    fast, standard = ask(text, *FAST)[0], ask(text, "--max-num-seqs", "256")[0]
    assert fast.text == standard.text
    assert (fast.finish_reason, len(fast.texts)) == (standard.finish_reason, len(standard.texts))


def test_the_text_is_the_same_on_every_machine() -> None:
    # A change of this text breaks comparisons between simulators of different versions.
    assert (
        ask("What is a river?", max_tokens=12)[0].text
        == "Useful river has river while river what light what has road answer"
    )


def test_seeds_choose_texts_and_repeat_them() -> None:
    def sampled(seed: int | None) -> str:
        return ask("Tell me a story", temperature=0.8, **({} if seed is None else {"seed": seed}))[0].text

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)
    assert ask("Tell me a story", seed=1)[0].text == ask("Tell me a story", seed=2)[0].text, (
        "greedy has no seed"
    )
    first, second = ask("Tell me a story", temperature=0.8, n=2)
    assert first.text != second.text


def test_a_fenced_block_is_echoed_word_for_word() -> None:
    assert CODE in ask(f"Add nothing, give it back:\n```python\n{CODE}```")[0].text


@pytest.mark.parametrize(
    "request_line",
    [
        "Please repeat after me:",
        "Return this unchanged, as text only.\n\n",
        "could you please rewrite\n",
        "FIX spelling:",
    ],
)
def test_a_request_to_copy_or_edit_is_answered_with_the_words(request_line: str) -> None:
    assert ask(f"{request_line} one two three")[0].text == "one two three"


@pytest.mark.parametrize("request_line", ["Why copy", "Repeat", "Repeat:", "Additional questions: which"])
def test_what_names_no_text_to_copy_is_answered_with_prose(request_line: str) -> None:
    assert ask(request_line)[0].text.endswith(".")


def test_length_ends_and_natural_ends_are_told_apart() -> None:
    whole = ask("Repeat: one two three")[0]
    assert (whole.finish_reason, whole.texts[-1]) == ("stop", "")
    cut = ask("Repeat: one two three", max_tokens=2)[0]
    assert (cut.finish_reason, cut.text, len(cut.texts)) == ("length", "one two", 2)
    forced = ask("Repeat: one two three", max_tokens=50, ignore_eos=True)[0]
    assert (forced.finish_reason, len(forced.texts)) == ("length", 50)


@pytest.mark.parametrize(
    ("stops", "include", "texts", "reason"),
    [
        ((), False, ("one", " two", " three"), None),
        ((" two",), False, ("one", ""), " two"),
        (("e t",), False, ("on", ""), "e t"),
        (("e t",), True, ("one", " t"), "e t"),
        (("three", "two"), False, ("one", " "), "two"),
        (("four",), False, ("one", " two", " three"), None),
    ],
)
def test_a_stop_string_ends_the_answer_before_it(
    stops: tuple[str, ...], include: bool, texts: tuple[str, ...], reason: str | None
) -> None:
    assert cut_at_stop(("one", " two", " three"), stops, include) == (texts, reason)


def test_a_stop_string_within_min_tokens_does_not_count() -> None:
    assert cut_at_stop(("a", "b", "a", "b"), ("b",), False, min_tokens=2) == (("a", "b", "a", ""), "b")


def test_equal_hashes_mean_equal_beginnings() -> None:
    pieces = [str(i) for i in range(64)]
    base = block_hashes(pieces, 16)
    changed = block_hashes([*pieces[:40], "x", *pieces[41:]], 16)
    assert len(base) == 4
    assert base[:2] == changed[:2]
    assert not set(base[2:]) & set(changed[2:])
    assert not set(base) & set(block_hashes(pieces, 16, salt="tenant"))
    assert block_hashes(["ab", "c"], 2) != block_hashes(["a", "bc"], 2)


@pytest.mark.parametrize("chance", [0.0, 0.06, 0.73, 1.0])
def test_drafts_are_right_as_often_as_the_setting_says(chance: float) -> None:
    draws = draftable("prompt", [True] * 20_000, chance_copied=chance, chance_free=0.5)
    assert sum(draws) / len(draws) == pytest.approx(chance, abs=0.015)


def seconds_per_token(text: str, *arguments: str) -> float:
    config = config_of(*arguments)
    request = ask(text, *arguments)[0].job.request
    cache = KvCache(config.total_blocks, config.block_size)
    run = run_to_end(Scheduler(config.limits, config.step_time, cache, config.speculation), [request])
    record = run.finished[request.request_id].record
    assert record is not None
    return (record.last_token - record.first_token) / (record.output_tokens - 1)


@pytest.mark.parametrize("tokens", ["5", "8"])
@pytest.mark.parametrize("number", range(len(COPIES)))
def test_speculation_makes_one_stream_at_least_two_and_a_half_times_as_fast_on_copied_text(
    number: int, tokens: str
) -> None:
    fast = seconds_per_token(COPIES[number], "--spec-method", "ngram", "--spec-tokens", tokens)
    assert seconds_per_token(COPIES[number]) / fast >= 2.5


def test_speculation_hardly_helps_on_prose() -> None:
    choice = ask("Explain the tides", *FAST, max_tokens=200, ignore_eos=True)[0]
    config = config_of(*FAST)
    run = run_to_end(
        Scheduler(config.limits, config.step_time, KvCache(1000, 16), config.speculation),
        [choice.job.request],
    )
    assert 1.0 < 200 / len(run.steps) < 1.2
