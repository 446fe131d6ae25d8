"""Measures how often a step gives the token that came as its most probable one: with other step shapes, or other numbers.

Nothing of it is needed where all step shapes round alike, which the warm-up proves bit by bit; elsewhere this is how far
speculation keeps to plain decoding.
"""

from collections.abc import Sequence

import numpy as np

from tierwright_worker.engine.executor import Executor


def plain_answer(executor: Executor, prompt: Sequence[int], tokens: int) -> list[int]:
    """`tokens` greedy ones behind a prompt, by the narrowest step, on a cache that is cleared first."""
    rows = executor.shapes.step_rows[0]
    _read(executor, prompt)
    known = list(prompt)
    for at in range(len(prompt) - 1, len(prompt) - 1 + tokens):
        known.append(_best(executor, known[at:], at, rows)[0])
    return known[len(prompt) :]


def agreeing(executor: Executor, prompt: Sequence[int], answer: Sequence[int], rows: int) -> int:
    """How many tokens of an answer stay the most probable ones in steps of `rows`, as if all had been drafted."""
    _read(executor, prompt)
    known = [*prompt, *answer]
    same = 0
    for at in range(len(prompt) - 1, len(known) - 1, rows):
        fed = known[at : min(at + rows, len(known) - 1)]
        best = _best(executor, fed, at, rows)
        same += sum(found == token for found, token in zip(best, known[at + 1 :], strict=False))
    return same


def shapes_agreement(executor: Executor, prompts: Sequence[Sequence[int]], tokens: int) -> float:
    """The share of plain greedy tokens that every wider step shape gives as well, 0 to 1; the cache is empty afterwards.

    tokens: of each prompt's answer; prompt, answer and the widest step must fit into the context.

    Raises:
        ValueError: there is nothing to compare.
    """
    wider = executor.shapes.step_rows[1:]
    if not wider or not prompts or tokens < 1:
        raise ValueError("there is one step shape alone, or no prompt, or no token")
    same = 0
    for prompt in prompts:
        answer = plain_answer(executor, prompt, tokens)
        same += sum(agreeing(executor, prompt, answer, rows) for rows in wider)
    executor.clear()
    return same / (len(prompts) * tokens * len(wider))


def _read(executor: Executor, prompt: Sequence[int]) -> None:
    """All of a prompt but its last token, which the first step feeds, into slot 0."""
    executor.clear()
    bucket = executor.shapes.prefill_buckets[-1]
    for start in range(0, len(prompt) - 1, bucket):
        _reach(executor, start + bucket)
        executor.prefill(0, start, prompt[start : min(start + bucket, len(prompt) - 1)], bucket)


def _best(executor: Executor, fed: Sequence[int], at: int, rows: int) -> list[int]:
    """The most probable token after each of those that are fed from position `at` on; other slots stand at 0."""
    slots = executor.shapes.slots
    tokens, positions = np.zeros((slots, rows), np.int32), np.zeros(slots, np.int32)
    tokens[0, : len(fed)], positions[0] = fed, at
    _reach(executor, at + rows)
    return [int(token) for token in executor.step(tokens, positions).best[0, : len(fed)]]


def _reach(executor: Executor, needed: int) -> None:
    if needed > executor.length:
        executor.set_length(next(size for size in executor.shapes.length_buckets if size >= needed))
