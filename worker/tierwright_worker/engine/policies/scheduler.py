"""Decides the device's next iteration: who gets a free slot, whose prompt is read on, and the shape of the step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tierwright_worker.engine.interface import (
    Iteration,
    PrefillChunk,
    RequestId,
    RunningRequest,
    Shapes,
    Step,
    WaitingRequest,
)

# Short prompts go first, but a prompt waits for no more than this many chunks of others.
MOST_PASSED_OVER = 8


def schedule(
    waiting: Sequence[WaitingRequest],
    running: Sequence[RunningRequest],
    *,
    cached_tokens: Mapping[RequestId, int],
    shapes: Shapes,
    prefill_token_limit: int,
) -> Iteration:
    """The next iteration; pure, so equal arguments give equal answers.

    Admission: by priority, then share, then arrival, as long as slots are free. Prefill: the prompt with the least left,
    unless another was passed over too often; while anything decodes, in buckets of at most `prefill_token_limit` rows
    (the smallest bucket always counts as allowed). Step: everything that has its prompt but for the last token.

    Who is admitted may be prefilled in the same iteration, and whose prefill ends takes part in its step: prefill runs
    first. A chunk's `length_bucket` holds `start + bucket`, for padded rows write too; a step's holds its furthest slot and
    all rows. `cached_tokens`: leading prompt tokens of waiting requests that the prompt cache will supply.
    """
    admitted = _admit(waiting, running, cached_tokens, shapes.slots)
    everyone = [*running, *admitted]
    decoding = [request for request in everyone if not request.prefilling]
    prefill = _prefill(everyone, shapes, prefill_token_limit if decoding else None)
    if prefill is not None:
        decoding += [ended for request in everyone if (ended := _after_prefill(request, prefill)) is not None]
    step = _step(decoding, shapes) if decoding else None
    admissions = tuple((request.id, request.slot) for request in admitted)
    return Iteration(admissions, prefill, step, _reason(prefill, step))


def _admit(
    waiting: Sequence[WaitingRequest],
    running: Sequence[RunningRequest],
    cached_tokens: Mapping[RequestId, int],
    slots: int,
) -> list[RunningRequest]:
    taken = {request.slot for request in running}
    free = [slot for slot in range(slots) if slot not in taken]
    # Sorting is stable: what is equal stays in the order of arrival.
    order = sorted(waiting, key=lambda request: (request.priority, request.share))
    return [
        RunningRequest(
            id=request.id,
            slot=slot,
            prompt_tokens=request.prompt_tokens,
            output_tokens=0,
            # The last prompt token is always computed: a step needs it to have something to follow.
            computed=min(cached_tokens.get(request.id, 0), request.prompt_tokens - 1),
            max_tokens=request.max_tokens,
            wants_draft=0,
        )
        for slot, request in zip(free, order, strict=False)
    ]


def _prefill(
    everyone: Sequence[RunningRequest], shapes: Shapes, token_limit: int | None
) -> PrefillChunk | None:
    prefilling = [request for request in everyone if request.prefilling]
    if not prefilling:
        return None
    late = [request for request in prefilling if request.passed_over >= MOST_PASSED_OVER]
    if late:
        chosen = max(late, key=lambda request: request.passed_over)
    else:
        chosen = min(prefilling, key=lambda request: request.prompt_tokens - request.computed)
    left = chosen.prompt_tokens - 1 - chosen.computed
    buckets = [bucket for bucket in shapes.prefill_buckets if bucket <= shapes.max_length]
    if not buckets:
        raise ValueError(
            f"no prefill bucket of {shapes.prefill_buckets} fits a context of {shapes.max_length}"
        )
    allowed = [bucket for bucket in buckets if token_limit is None or bucket <= token_limit] or buckets[:1]
    # Padded rows write too. Where no bucket fits behind what is computed, the chunk begins earlier and computes some
    # positions again.
    allowed = [bucket for bucket in allowed if chosen.computed + bucket <= shapes.max_length] or buckets[:1]
    bucket = _smallest(allowed, left) or allowed[-1]
    start = min(chosen.computed, shapes.max_length - bucket)
    tokens = min(bucket, chosen.prompt_tokens - 1 - start)
    length = _smallest(shapes.length_buckets, start + bucket) or shapes.max_length
    return PrefillChunk(chosen.slot, start, tokens, bucket, length)


def _after_prefill(request: RunningRequest, chunk: PrefillChunk) -> RunningRequest | None:
    """The request once the chunk has run, if it was its last."""
    if request.slot != chunk.slot:
        return None
    read = replace(request, computed=chunk.start + chunk.tokens)
    return None if read.prefilling else read


def _step(decoding: Sequence[RunningRequest], shapes: Shapes) -> Step:
    furthest = max(request.computed for request in decoding)
    # All slots share the rows, and every row writes: the fullest slot bounds them.
    fitting = [rows for rows in shapes.step_rows if furthest + rows <= shapes.max_length] or shapes.step_rows[
        :1
    ]
    wanted = {request.slot: _drafts(request) for request in decoding}
    rows = _smallest(fitting, 1 + max(wanted.values())) or fitting[-1]
    drafts = {slot: min(count, rows - 1) for slot, count in wanted.items()}
    length = _smallest(shapes.length_buckets, furthest + rows) or shapes.max_length
    return Step(rows, length, drafts)


def _drafts(request: RunningRequest) -> int:
    # The step gives one token of the model's own besides; more than the answer may have would be thrown away.
    return max(0, min(request.wants_draft, request.max_tokens - request.output_tokens - 1))


def _smallest(sizes: Iterable[int], needed: int) -> int | None:
    return next((size for size in sizes if size >= needed), None)


def _reason(prefill: PrefillChunk | None, step: Step | None) -> str:
    if prefill is None:
        return "idle" if step is None else "step"
    return "prefill" if step is None else "prefill and step"
