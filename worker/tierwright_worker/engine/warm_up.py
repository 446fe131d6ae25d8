"""Warms an executor: builds every program, runs each once, measures the steps, and proves that all step shapes round alike."""

import time
from collections import Counter
from functools import partial

import numpy as np
import numpy.typing as npt

from tierwright_worker.engine.executor import Executor, Tokens, WarmUp, timed
from tierwright_worker.engine.programs import ProgramStore

_PROMPT = 24  # positions before the compared ones; enough for attention to mix several
_TIMED_RUNS = 3


def warm_up(executor: Executor, store: ProgramStore, *, require_exact: bool) -> WarmUp:
    """Make the executor ready; its cache is empty afterwards.

    `require_exact`: where two step shapes disagree in a single bit, only the widest shape is used from then on, so that
    a request's tokens cannot depend on how many were drafted.
    """
    began = time.perf_counter()
    built = executor.build(store)
    shapes = executor.shapes
    widest = shapes.step_rows[-1]
    random = np.random.default_rng(0)
    tokens = random.integers(0, executor.config.vocab_size, _PROMPT + widest + shapes.prefill_buckets[-1])
    prompt, rest = [int(token) for token in tokens[:_PROMPT]], tokens[_PROMPT:].astype(np.int32)
    seconds: dict[tuple[int, int], float] = {}
    reference: npt.NDArray[np.float32] | None = None
    exact, agreed, compared = True, 0, 0
    for length in shapes.length_buckets:
        executor.set_length(length)
        for bucket in shapes.prefill_buckets:
            if bucket <= length:
                executor.prefill(0, 0, prompt, bucket)
        if executor.page_tokens:
            executor.restore(executor.save(0, 0), 0, 0)
        for rows in shapes.step_rows:
            seen = _logits(executor, rest, rows, widest)
            reference = seen if reference is None else reference
            exact = exact and bool(np.array_equal(seen, reference))
            agreed += int(np.sum(np.argmax(seen, -1) == np.argmax(reference, -1)))
            compared += len(seen)
            seconds[rows, length] = min(
                timed(partial(_step, executor, rest, rows, 0)) for _ in range(_TIMED_RUNS)
            )
    _touch_resizes(executor)
    executor.clear()
    usable = shapes.step_rows if exact or not require_exact else (widest,)
    return WarmUp(
        exact=exact,
        step_rows=usable,
        step_seconds=seconds,
        agreement=agreed / compared,
        origins=Counter(ready.origin for ready in built),
        seconds=time.perf_counter() - began,
    )


def _logits(executor: Executor, tokens: Tokens, rows: int, count: int) -> npt.NDArray[np.float32]:
    """The logits of slot 0 at `count` positions after the prompt, computed `rows` at a time."""
    parts = [np.array(_step(executor, tokens, rows, start)[0]) for start in range(0, count, rows)]
    return np.concatenate(parts)[:count]


def _step(executor: Executor, tokens: Tokens, rows: int, start: int) -> npt.NDArray[np.float32]:
    """One step whose slots all get the same rows; the others' positions are kept within the cache."""
    slots = executor.shapes.slots
    window = np.tile(tokens[start : start + rows], (slots, 1))
    positions = np.full(slots, executor.length - rows, np.int32)
    positions[0] = _PROMPT + start
    return executor.step(window, positions).host_logits()


def _touch_resizes(executor: Executor) -> None:
    """Run every change of length once: the first run of a program is slower, and a broken one must show before ready."""
    lengths = executor.shapes.length_buckets
    for old in lengths:
        for new in lengths:
            executor.set_length(old)
            executor.set_length(new)
