"""A replay with the numbers that an answer was made with agrees with every token of it, whatever its length and its prompt's."""

from pathlib import Path

import pytest

from tests.worker.support import TINY_LENGTHS, Bench, greedy, random_model, run, texts
from tierwright_worker.bench.replay import replay, replay_shapes
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.engine.sequence import Request

ROWS, BUCKET = 4, 64


@pytest.fixture(scope="module")
def answered(tiny: Bench) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompts of one token, of a chunk and one, and of more; answers of several steps."""
    assert TINY_LENGTHS
    prompts = [tuple(3 + (at * 7 + length) % 100 for at in range(length)) for length in (1, 65, 130)]
    found = texts(run(tiny.engine(), [Request(str(len(prompt)), prompt, greedy(13)) for prompt in prompts]))
    return [(prompt, tuple(found[str(len(prompt))])) for prompt in prompts]


def built(answered: list[tuple[tuple[int, ...], tuple[int, ...]]], folder: Path, kv_dtype: str) -> Executor:
    config, parameters = random_model("llama", folder)
    shapes = replay_shapes(answered, rows=ROWS, bucket=BUCKET)
    executor = Executor(config, parameters, shapes, kv_dtype=kv_dtype)
    executor.build(ProgramStore(None, key=""))
    return executor


def test_the_same_numbers_agree_with_every_token(
    answered: list[tuple[tuple[int, ...], tuple[int, ...]]], tmp_path: Path
) -> None:
    executor = built(answered, tmp_path, "float32")
    found = replay(executor, answered, "float32")
    assert (found.same, found.of) == (3 * 13, 3 * 13)
    assert found.share == 1.0
    # A token that did not come is seen: it is not the most probable one, and hardly leads to the one behind it.
    prompt, answer = answered[1]
    wrong = (*answer[:6], (answer[6] + 1) % 100, *answer[7:])
    assert replay(executor, [(prompt, wrong)], "float32").same < len(answer)


def test_without_an_answer_there_is_nothing_to_replay(
    answered: list[tuple[tuple[int, ...], tuple[int, ...]]], tmp_path: Path
) -> None:
    executor = built(answered, tmp_path, "float32")
    with pytest.raises(ValueError, match="no answer"):
        replay(executor, [((1, 2), ())], "float32")
