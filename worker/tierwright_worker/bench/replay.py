"""Replays answers through other numbers: how often the token that came stays the most probable one after those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    same = total = 0
    for prompt, answer in texts:
        executor.clear()
        _read(executor, prompt)
        same += _agreeing(executor, prompt, answer)
        total += len(answer)
    if total == 0:
        raise ValueError("there is no answer to replay")
    return TokenAgreement(numbers, same, total)


def _read(executor: Executor, prompt: Sequence[int]) -> None:
    """All but the last token, which the first step feeds."""
    (bucket,) = executor.shapes.prefill_buckets
    for start in range(0, len(prompt) - 1, bucket):
        executor.prefill(0, start, prompt[start : min(start + bucket, len(prompt) - 1)], bucket)


def _agreeing(executor: Executor, prompt: Sequence[int], answer: Sequence[int]) -> int:
    (rows,) = executor.shapes.step_rows
    known = [*prompt, *answer]
    same = 0
    for at in range(len(prompt) - 1, len(known) - 1, rows):
        fed = known[at : min(at + rows, len(known) - 1)]
        tokens = np.zeros((1, rows), np.int32)
        tokens[0, : len(fed)] = fed
        best = executor.step(tokens, np.full(1, at, np.int32)).best[0]
        followed = known[at + 1 : at + 1 + len(fed)]
        same += sum(int(found) == token for found, token in zip(best, followed, strict=False))
    return same
