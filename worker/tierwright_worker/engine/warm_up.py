"""Warms an executor: builds every program, runs each once, measures the steps, and proves that all step shapes round alike."""

import time
from collections import Counter

import numpy as np
import numpy.typing as npt

from tierwright_worker.engine.executor import Executor, Tokens, WarmUp
from tierwright_worker.engine.programs import ProgramStore

_PROMPT = 24  # positions before the compared ones; enough for attention to mix several
_RUNS = 3


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
            seen, seconds[rows, length] = _logits(executor, rest, rows, widest)
            reference = seen if reference is None else reference
            exact = exact and bool(np.array_equal(seen, reference))
            agreed += int(np.sum(np.argmax(seen, -1) == np.argmax(reference, -1)))
            compared += len(seen)
    executor.try_resizes()
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


def _logits(
    executor: Executor, tokens: Tokens, rows: int, count: int
) -> tuple[npt.NDArray[np.float32], float]:
    """The logits of slot 0 at `count` positions after the prompt, computed `rows` at a time; the seconds of the best step."""
    parts, seconds = [], []
    starts = list(range(0, count, rows))
    # The first runs are slower and other work disturbs some, so there are three at least, and for each shape about as many.
    for start in starts * -(-_RUNS // len(starts)):
        began = time.perf_counter()
        found = _step(executor, tokens, rows, start)
        seconds.append(time.perf_counter() - began)
        parts.append(np.array(found[0]))
    return np.concatenate(parts)[:count], min(seconds[: _RUNS + 1])


def _step(executor: Executor, tokens: Tokens, rows: int, start: int) -> npt.NDArray[np.float32]:
    """One step whose slots all get the same rows; the others' positions are kept within the cache."""
    slots = executor.shapes.slots
    window = np.tile(tokens[start : start + rows], (slots, 1))
    positions = np.full(slots, executor.length - rows, np.int32)
    positions[0] = _PROMPT + start
    return executor.step(window, positions).host_logits()
