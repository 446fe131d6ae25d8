"""A prompt that a draft model has read before is not read again: it drafts at once, the same tokens, for the same tenant alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.worker.support import TINY_LENGTHS, Bench, bench, draft_model, greedy, random_model, run, texts
from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.interface import CacheSettings
from tierwright_worker.engine.loop import Engine
from tierwright_worker.engine.policies.breakpoints import Breakpoint
from tierwright_worker.engine.sequence import Output, Request

PAGE = 32
DRAFTS = 4


@pytest.fixture(scope="module")
def paged(kept_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The small target's own weights, to draft with, on an executor that copies pages; drafting is said to cost little."""
    config, parameters = random_model("llama", tmp_path_factory.mktemp("llama"))
    machine = bench(
        config,
        parameters,
        slots=3,
        max_context=256,
        draft_tokens=1,
        lengths=TINY_LENGTHS,
        folder=kept_folder,
        page_tokens=PAGE,
        exact=False,
    )
    return timed(machine, 0.1)


def timed(machine: Bench, step: float) -> Bench:
    """The machine as if every step took so many seconds."""
    return Bench(
        machine.executor,
        replace(machine.warmed, step_seconds=dict.fromkeys(machine.warmed.step_seconds, step)),
    )


@pytest.fixture
def pages(paged: Bench) -> CachedPrompts:
    """An empty cache of the draft model's prompts."""
    return CachedPrompts(
        CacheSettings(PAGE, device_pages=64, host_pages=0, ttl=300.0), paged.executor, "draft"
    )


@pytest.fixture
def engine(tiny: Bench, paged: Bench, pages: CachedPrompts) -> Engine:
    """Drafts with a model that keeps prompts; the target keeps none."""
    return timed(tiny, 1.0).engine(draft_tokens=DRAFTS, drafter=draft_model(paged, prompts=pages))


def prompt(seed: int, length: int) -> tuple[int, ...]:
    """Random tokens, none of them special."""
    return tuple(int(token) for token in np.random.default_rng(seed).integers(3, 128, length))


def until_drafted(outputs: list[Output]) -> int:
    """Steps before the first that verified drafts."""
    return next(at for at, output in enumerate(outputs) if output.drafted)


def test_a_prompt_read_before_is_drafted_for_at_once(
    engine: Engine, tiny: Bench, pages: CachedPrompts
) -> None:
    shared = prompt(1, 190)
    asked = [Request("first", shared, greedy(30)), Request("again", shared, greedy(30))]
    plain = texts(run(tiny.engine(), asked))
    first, again = (run(engine, [request])[request.id] for request in asked)
    assert texts({"first": first, "again": again}) == plain
    # Three chunks of 64 are read before the first draft; what is left behind the cached pages fits into one.
    assert until_drafted(first) == 3
    assert until_drafted(again) == 1
    assert engine.counters.accepted_tokens == engine.counters.draft_tokens > 0
    assert pages.take_events().hits == {"device": 190 // PAGE * PAGE}


def test_an_answer_is_kept_for_the_conversation_that_goes_on(engine: Engine, pages: CachedPrompts) -> None:
    opening = prompt(2, 60)
    said = texts(run(engine, [Request("a", opening, greedy(80))]))["a"]
    pages.take_events()
    outputs = run(engine, [Request("b", (*opening, *said, *prompt(3, 9)), greedy(12))])["b"]
    # Of 140 tokens four pages are full; the last draft may not have been confirmed when the answer ended.
    assert pages.take_events().hits["device"] >= 3 * PAGE
    assert until_drafted(outputs) <= 2


def test_only_what_is_marked_is_kept_and_only_for_its_tenant(engine: Engine, pages: CachedPrompts) -> None:
    shared = prompt(4, 150)
    marked = (Breakpoint(2 * PAGE, 300.0),)
    run(engine, [Request("a", shared, greedy(12), tenant="one", breakpoints=marked)])
    assert pages.levels["device"] == 2
    pages.take_events()
    run(engine, [Request("b", shared, greedy(12), tenant="two", breakpoints=marked)])
    assert pages.take_events().hits == {}
    run(engine, [Request("c", shared, greedy(12), tenant="one", breakpoints=())])
    assert pages.take_events().hits == {"device": 2 * PAGE}


def test_neighbours_keep_their_own(engine: Engine, tiny: Bench) -> None:
    asked = [Request(f"r{at}", prompt(at % 2, 100 + 7 * (at % 2)), greedy(25)) for at in range(7)]
    assert texts(run(engine, asked)) == texts(run(tiny.engine(), asked))
    assert engine.counters.accepted_tokens == engine.counters.draft_tokens > 0
