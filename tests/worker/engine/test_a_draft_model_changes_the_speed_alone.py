"""A draft model changes the speed alone: the target's own weights are always accepted, random ones hardly ever, the text is one."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from tests.worker.support import TINY_LENGTHS, Bench, bench, draft_model, greedy, random_model, run, texts
from tierwright_worker.engine.draft_model import DraftModel
from tierwright_worker.engine.interface import SamplingParams
from tierwright_worker.engine.loop import Engine
from tierwright_worker.engine.sequence import Request

DRAFTS = 4


@dataclass(frozen=True)
class Pair:
    """A target, and what may draft for it."""

    target: Bench
    same: Bench
    other: Bench

    def engine(self, drafter: DraftModel, disable_above_batch: int | None = None) -> Engine:
        """A fresh engine that drafts with a model."""
        return self.target.engine(
            draft_tokens=DRAFTS, drafter=drafter, disable_above_batch=disable_above_batch
        )


@pytest.fixture(scope="module")
def pair(tiny: Bench, kept_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The draft models have one and two rows: what was accepted last, and a token of the target's own, fit into two.

    Times are set, not measured: in models as small as these drafting never pays.
    """

    def drafting(name: str) -> Bench:
        config, parameters = random_model(name, tmp_path_factory.mktemp(name))
        machine = bench(
            config,
            parameters,
            slots=3,
            max_context=256,
            draft_tokens=1,
            lengths=TINY_LENGTHS,
            folder=kept_folder,
            exact=False,
        )
        return timed(machine, 0.1, 0.0)

    return Pair(timed(tiny, 1.0, 0.01), drafting("llama"), drafting("mistral"))


def timed(machine: Bench, step: float, row: float) -> Bench:
    """The machine as if a step took `step` seconds, and `row` more for each row."""
    seconds = {(rows, length): step + row * rows for rows, length in machine.warmed.step_seconds}
    return Bench(machine.executor, replace(machine.warmed, step_seconds=seconds))


def prompt(seed: int, length: int) -> tuple[int, ...]:
    """Random tokens, none of them special."""
    return tuple(int(token) for token in np.random.default_rng(seed).integers(3, 128, length))


def crowd(params: SamplingParams) -> list[Request]:
    """More requests than slots; some prompts take several chunks, some answers end with the context."""
    lengths = [1, 2, 63, 64, 66, 130, 190, 240]
    return [Request(f"r{n}", prompt(n, n), params) for n in lengths]


@pytest.mark.parametrize(
    "params", [greedy(30), SamplingParams(temperature=0.8, top_p=0.95, seed=3, max_tokens=30)]
)
def test_text_is_that_of_plain_decoding_whatever_drafts(pair: Pair, params: SamplingParams) -> None:
    plain = texts(run(pair.target.engine(), crowd(params)))
    for machine in (pair.same, pair.other):
        engine = pair.engine(draft_model(machine))
        assert texts(run(engine, crowd(params))) == plain
        assert engine.counters.draft_tokens > 0


@pytest.mark.parametrize(
    "params",
    [
        greedy(60),
        SamplingParams(temperature=1.0, seed=5, max_tokens=60),
        SamplingParams(temperature=0.7, frequency_penalty=0.9, top_k=20, seed=6, max_tokens=60),
    ],
)
def test_the_targets_own_weights_draft_what_it_takes(pair: Pair, params: SamplingParams) -> None:
    engine = pair.engine(draft_model(pair.same))
    run(engine, [Request("a", prompt(1, 90), params)])
    assert engine.counters.draft_tokens > 40
    assert engine.counters.accepted_tokens == engine.counters.draft_tokens
    # Every step gives the drafts and one token more.
    assert engine.counters.steps <= 60 / (1 + DRAFTS) + 4


def test_a_model_that_knows_nothing_is_hardly_accepted_and_soon_left_alone(pair: Pair) -> None:
    engine = pair.engine(draft_model(pair.other))
    outputs = run(engine, [Request("a", prompt(1, 40), greedy(120))])["a"]
    assert engine.counters.accepted_tokens <= engine.counters.draft_tokens / 5
    late = [output.drafted for output in outputs[len(outputs) // 2 :]]
    # Probes are all that is left.
    assert sum(drafted > 0 for drafted in late) <= len(late) / 8


def test_nothing_is_drafted_above_the_batch_threshold(pair: Pair) -> None:
    engine = pair.engine(draft_model(pair.same), disable_above_batch=1)
    for at in range(3):
        engine.submit(Request(f"r{at}", prompt(at, 10), greedy(30)))
    crowded = 0
    while engine.busy:
        outputs = engine.iterate()
        if len(outputs) > 1 and engine.speculation.reasons.get("batch", 0) > 1:
            crowded += 1
            assert all(output.drafted == 0 for output in outputs)
    assert crowded > 20


def test_a_slot_that_another_request_takes_over_is_read_anew(pair: Pair) -> None:
    drafter = draft_model(pair.same)
    engine = pair.engine(drafter)
    for at in range(4):
        run(engine, [Request(f"r{at}", prompt(at, 70), greedy(25))])
    engine.submit(Request("gone", prompt(8, 30), greedy(40)))
    for _ in range(5):
        engine.iterate()
    engine.cancel("gone")
    plain = texts(run(pair.target.engine(), [Request("next", prompt(9, 20), greedy(25))]))
    engine = pair.engine(drafter)
    assert texts(run(engine, [Request("next", prompt(9, 20), greedy(25))])) == plain
    assert engine.counters.accepted_tokens == engine.counters.draft_tokens > 0


def test_sampling_keeps_the_distribution_of_plain_sampling(pair: Pair) -> None:
    """Chi-square of the second and third token of 450 answers; drafts of both models against plain sampling."""

    def law(engine: Engine, offset: int) -> Counter[tuple[int, ...]]:
        found: Counter[tuple[int, ...]] = Counter()
        for first in range(0, 450, 3):
            requests = [
                Request(
                    f"s{seed}",
                    prompt(4, 12),
                    SamplingParams(temperature=0.7, top_k=3, seed=seed + offset, max_tokens=3),
                )
                for seed in range(first, first + 3)
            ]
            found.update(tuple(tokens[1:]) for tokens in texts(run(engine, requests)).values())
        return found

    plain = law(pair.target.engine(), 10_000)
    for machine in (pair.same, pair.other):
        engine = pair.engine(draft_model(machine))
        drafted = law(engine, 0)
        assert engine.counters.draft_tokens > 50
        kinds = [kind for kind in plain | drafted if plain[kind] + drafted[kind] >= 12]
        rest = [sum(seen.values()) - sum(seen[kind] for kind in kinds) for seen in (plain, drafted)]
        table = np.array(
            [
                [seen[kind] for kind in kinds] + [left]
                for seen, left in zip((plain, drafted), rest, strict=True)
            ]
        )
        assert table.shape[1] > 5
        assert stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue > 1e-3
