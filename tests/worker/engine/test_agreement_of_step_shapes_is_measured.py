"""How often wider steps give plain decoding's tokens: always where they round alike, and seen where they do not."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.worker.support import Bench, greedy, run, texts
from tierwright_worker.engine.agreement import agreeing, plain_answer, shapes_agreement
from tierwright_worker.engine.executor import StepResult, Tokens
from tierwright_worker.engine.sequence import Request

PROMPTS: Sequence[Sequence[int]] = ([7], list(range(3, 20)), list(range(3, 100)))


def test_a_plain_answer_is_what_the_engine_says(tiny: Bench) -> None:
    asked = [Request(str(len(prompt)), tuple(prompt), greedy(12)) for prompt in PROMPTS]
    said = texts(run(tiny.engine(), asked))
    for prompt in PROMPTS:
        assert plain_answer(tiny.executor, prompt, 12) == said[str(len(prompt))]


def test_shapes_that_round_alike_agree_always(tiny: Bench) -> None:
    assert tiny.warmed.exact
    assert shapes_agreement(tiny.executor, PROMPTS, 20) == 1.0
    assert tiny.executor.length == tiny.executor.shapes.length_buckets[0]


def test_a_shape_that_rounds_otherwise_is_seen(tiny: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tiny.executor.step
    widest = tiny.executor.shapes.step_rows[-1]

    def other(tokens: Tokens, positions: Tokens) -> StepResult:
        """In the widest step every other row gives another token."""
        found = real(tokens, positions)
        if tokens.shape[1] < widest:
            return found
        wrong = np.array(found.best)
        wrong[:, ::2] = (wrong[:, ::2] + 1) % 100
        return StepResult(wrong, found.logits)

    monkeypatch.setattr(tiny.executor, "step", other)
    prompt = PROMPTS[1]
    answer = plain_answer(tiny.executor, prompt, 20)
    # Rows 0, 2 and 4 of each five are wrong, in four whole steps.
    assert widest == 5
    assert agreeing(tiny.executor, prompt, answer, widest) == 8
    wider = len(tiny.executor.shapes.step_rows) - 1
    assert shapes_agreement(tiny.executor, [prompt], 20) == pytest.approx(1 - 12 / (20 * wider))


def test_nothing_to_compare_is_an_error(tiny: Bench) -> None:
    with pytest.raises(ValueError, match="no prompt"):
        shapes_agreement(tiny.executor, [], 20)
