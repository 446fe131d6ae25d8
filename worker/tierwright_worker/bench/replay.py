"""Replays answers through other numbers: how often the token that came stays the most probable one after those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tierwright_worker.engine.agreement import agreeing
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.interface import Shapes
from tierwright_worker.models.exact import BLOCK

Text = tuple[Sequence[int], Sequence[int]]
"""A prompt and its answer, both as tokens."""


@dataclass(frozen=True, slots=True)
class TokenAgreement:
    """Of `of` tokens, `same` stayed the most probable ones with `numbers`, each after the recorded ones before it."""

    numbers: str
    same: int
    of: int

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.same / self.of


def replay_shapes(texts: Sequence[Text], *, rows: int, bucket: int) -> Shapes:
    """The few shapes that a replay needs: one slot, steps of `rows`, chunks of `bucket`, one length for the longest text."""
    longest = max(len(prompt) + len(answer) for prompt, answer in texts)
    length = -(-(longest + max(rows, bucket)) // BLOCK) * BLOCK
    return Shapes(slots=1, step_rows=(rows,), length_buckets=(length,), prefill_buckets=(bucket,))


def replay(executor: Executor, texts: Sequence[Text], numbers: str) -> TokenAgreement:
    """Read each prompt, then step along its answer as if every token of it had been drafted.

    executor: built, with the shapes of `replay_shapes`; `numbers` says in which it computes.

    Raises:
        ValueError: no text has an answer.
    """
    (rows,) = executor.shapes.step_rows
    same = sum(agreeing(executor, prompt, answer, rows) for prompt, answer in texts)
    total = sum(len(answer) for _, answer in texts)
    if total == 0:
        raise ValueError("there is no answer to replay")
    return TokenAgreement(numbers, same, total)
