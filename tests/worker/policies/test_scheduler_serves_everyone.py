"""The scheduler uses only shapes that exist, starves nobody, and admission and fair shares bound what waits."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright_worker.engine.interface import (
    Admission,
    Iteration,
    QueueLimits,
    RunningRequest,
    Shapes,
    Step,
    WaitingRequest,
)
from tierwright_worker.engine.policies.admission import admit
from tierwright_worker.engine.policies.fairness import FairShares
from tierwright_worker.engine.policies.scheduler import MOST_PASSED_OVER, schedule

SHAPES = Shapes(slots=4, step_rows=(1, 3, 9), length_buckets=(64, 128), prefill_buckets=(8, 32))


def running(
    slot: int,
    prompt: int,
    computed: int,
    *,
    output_tokens: int = 0,
    max_tokens: int = 20,
    wants_draft: int = 0,
) -> RunningRequest:
    """A request in a slot."""
    return RunningRequest(f"r{slot}", slot, prompt, output_tokens, computed, max_tokens, wants_draft)


def plan(
    waiting: Sequence[WaitingRequest] = (),
    active: Sequence[RunningRequest] = (),
    cached: dict[str, int] | None = None,
    limit: int = 32,
    shapes: Shapes = SHAPES,
) -> Iteration:
    """The next iteration."""
    return schedule(waiting, active, cached_tokens=cached or {}, shapes=shapes, prefill_token_limit=limit)


def test_nothing_to_do_is_said() -> None:
    assert plan() == Iteration((), None, None, "idle")


def test_free_slots_are_filled_by_priority_then_share_then_arrival() -> None:
    waiting = [
        WaitingRequest("late", 9, 5, share=7),
        WaitingRequest("first", 9, 5, share=2),
        WaitingRequest("second", 9, 5, share=2),
        WaitingRequest("urgent", 9, 5, priority=-1, share=9),
    ]
    found = plan(waiting, [running(1, 9, 8)])
    assert found.admissions == (("urgent", 0), ("first", 2), ("second", 3))


def test_a_prompt_is_read_in_the_smallest_bucket_that_holds_the_rest() -> None:
    chunk = plan(active=[running(0, 60, 32)]).prefill
    assert chunk is not None
    assert (chunk.start, chunk.tokens, chunk.bucket, chunk.length_bucket) == (32, 27, 32, 64)
    chunk = plan(active=[running(0, 60, 52)]).prefill
    assert chunk is not None
    assert (chunk.start, chunk.tokens, chunk.bucket, chunk.length_bucket) == (52, 7, 8, 64)


def test_while_others_decode_chunks_stay_within_the_limit() -> None:
    alone = plan(active=[running(0, 60, 0)], limit=8)
    assert alone.prefill is not None
    assert alone.prefill.bucket == 32
    beside = plan(active=[running(0, 60, 0), running(1, 5, 4)], limit=8)
    assert beside.prefill is not None
    assert beside.prefill.bucket == 8
    assert beside.step == Step(1, 64, {1: 0})
    tiny = plan(active=[running(0, 60, 0), running(1, 5, 4)], limit=1)
    assert tiny.prefill is not None
    assert tiny.prefill.bucket == 8


def test_cached_pages_are_not_read_again_but_the_last_token_is() -> None:
    found = plan([WaitingRequest("a", 40, 5)], cached={"a": 32})
    assert found.prefill is not None
    assert found.prefill.start == 32
    whole = plan([WaitingRequest("a", 32, 5)], cached={"a": 32})
    assert whole.prefill is None
    assert whole.step == Step(1, 64, {0: 0})


def test_a_prompt_whose_reading_ends_takes_part_in_the_step() -> None:
    found = plan(active=[running(0, 9, 0), running(1, 5, 4, wants_draft=2)])
    assert found.step == Step(3, 64, {1: 2, 0: 0})
    assert found.reason == "prefill and step"


def test_near_the_end_of_the_context_a_chunk_begins_earlier() -> None:
    chunk = plan(active=[running(0, 127, 122)]).prefill
    assert chunk is not None
    assert (chunk.start, chunk.tokens, chunk.bucket, chunk.length_bucket) == (120, 6, 8, 128)


def test_a_smaller_bucket_that_fits_is_better_than_computing_again() -> None:
    chunk = plan(active=[running(0, 127, 100)]).prefill
    assert chunk is not None
    assert (chunk.start, chunk.tokens, chunk.bucket) == (100, 8, 8)


def test_a_context_smaller_than_every_bucket_is_an_error() -> None:
    with pytest.raises(ValueError, match="no prefill bucket"):
        plan(active=[running(0, 6, 0)], shapes=replace(SHAPES, length_buckets=(7,)))


def test_the_fullest_slot_bounds_the_rows() -> None:
    found = plan(active=[running(0, 9, 8, wants_draft=8), running(1, 5, 124, wants_draft=8, max_tokens=999)])
    assert found.step == Step(3, 128, {0: 2, 1: 2})
    full = plan(active=[running(1, 5, 128, max_tokens=999)], shapes=replace(SHAPES, step_rows=(2,)))
    assert full.step == Step(2, 128, {1: 0})


def test_no_more_is_drafted_than_the_answer_may_hold() -> None:
    found = plan(active=[running(0, 9, 10, output_tokens=2, max_tokens=4, wants_draft=8)])
    assert found.step == Step(3, 64, {0: 1})
    last = plan(active=[running(0, 9, 10, output_tokens=3, max_tokens=4, wants_draft=8)])
    assert last.step == Step(1, 64, {0: 0})


def test_short_prompts_go_first_but_nobody_is_passed_over_for_ever() -> None:
    long, short = running(0, 120, 0), running(1, 20, 0)
    first = plan(active=[long, short]).prefill
    assert first is not None
    assert first.slot == 1
    late = plan(active=[replace(long, passed_over=MOST_PASSED_OVER), short]).prefill
    assert late is not None
    assert late.slot == 0


REQUESTS = st.lists(
    st.tuples(st.integers(1, 100), st.integers(1, 20), st.integers(0, 9), st.integers(0, 100)), max_size=12
)


@given(REQUESTS, st.sampled_from([1, 8, 32, 99]))
def test_every_request_is_served_with_shapes_that_exist(
    requests: list[tuple[int, int, int, int]], limit: int
) -> None:
    waiting = [
        WaitingRequest(f"q{place}", prompt, most) for place, (prompt, most, _, _) in enumerate(requests)
    ]
    wants = {f"q{place}": draft for place, (_, _, draft, _) in enumerate(requests)}
    cached = {f"q{place}": found for place, (_, _, _, found) in enumerate(requests)}
    active: list[RunningRequest] = []
    served = 0
    for _ in range(12 * 60):
        found = plan(waiting, active, cached, limit)
        if found.reason == "idle":
            break
        decoded_before = any(not request.prefilling for request in active)
        for identity, slot in found.admissions:
            chosen = next(item for item in waiting if item.id == identity)
            waiting.remove(chosen)
            assert all(slot != other.slot for other in active)
            known = min(cached[identity], chosen.prompt_tokens - 1)
            active.append(
                RunningRequest(
                    identity, slot, chosen.prompt_tokens, 0, known, chosen.max_tokens, wants[identity]
                )
            )
        chunk = found.prefill
        if chunk is not None:
            assert chunk.bucket in SHAPES.prefill_buckets
            assert chunk.start + chunk.bucket <= chunk.length_bucket in SHAPES.length_buckets
            assert not decoded_before or chunk.bucket <= max(limit, 8)
            assert chunk.tokens <= chunk.bucket
            for place, request in enumerate(active):
                if request.slot == chunk.slot:
                    assert (
                        chunk.start <= request.computed < chunk.start + chunk.tokens < request.prompt_tokens
                    )
                    active[place] = replace(request, computed=chunk.start + chunk.tokens, passed_over=0)
                elif request.prefilling:
                    assert request.passed_over <= MOST_PASSED_OVER + SHAPES.slots
                    active[place] = replace(request, passed_over=request.passed_over + 1)
        step = found.step
        decoding = {request.slot for request in active if not request.prefilling}
        assert set(step.drafts if step else ()) == decoding
        if step is not None:
            assert step.rows in SHAPES.step_rows
            assert step.length_bucket in SHAPES.length_buckets
            for place, request in enumerate(active):
                if request.slot in step.drafts:
                    assert request.computed + step.rows <= step.length_bucket
                    drafts = step.drafts[request.slot]
                    assert drafts <= min(request.wants_draft, step.rows - 1)
                    made = request.output_tokens + drafts + 1
                    assert made <= request.max_tokens
                    active[place] = replace(
                        request, output_tokens=made, computed=request.computed + drafts + 1
                    )
            served += sum(request.output_tokens == request.max_tokens for request in active)
            active = [request for request in active if request.output_tokens < request.max_tokens]
    assert served == len(requests)
    assert not waiting
    assert not active


@pytest.mark.parametrize(
    ("prompt", "requests", "tokens", "limits", "rate", "expected"),
    [
        (10, 0, 0, QueueLimits(1), None, Admission(True, "admitted")),
        (10, 1, 50, QueueLimits(1), None, Admission(False, "max_num_queued_reqs", 1)),
        (10, 1, 50, QueueLimits(1), 0.0, Admission(False, "max_num_queued_reqs", 1)),
        (10, 1, 50, QueueLimits(1), 20.0, Admission(False, "max_num_queued_reqs", 3)),
        (10, 1, 5000, QueueLimits(1), 1.0, Admission(False, "max_num_queued_reqs", 60)),
        (10, 5, 95, QueueLimits(9, 100), 10.0, Admission(False, "max_num_queued_tokens", 10)),
        (5, 5, 95, QueueLimits(9, 100), 10.0, Admission(True, "admitted")),
        (500, 0, 0, QueueLimits(9, 100), 10.0, Admission(True, "admitted")),
    ],
)
def test_the_queue_is_bounded(
    prompt: int, requests: int, tokens: int, limits: QueueLimits, rate: float | None, expected: Admission
) -> None:
    found = admit(
        prompt, waiting_requests=requests, waiting_tokens=tokens, limits=limits, tokens_per_second=rate
    )
    assert found == expected


COSTS = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(COSTS, COSTS)
def test_two_tenants_that_both_wait_get_equal_work(first: list[int], second: list[int]) -> None:
    shares = FairShares()
    waiting = [(shares.stamp("a", cost), place, "a", cost) for place, cost in enumerate(first)]
    waiting += [(shares.stamp("b", cost), 100 + place, "b", cost) for place, cost in enumerate(second)]
    work = {"a": 0, "b": 0}
    left = {"a": len(first), "b": len(second)}
    for tag, _, tenant, cost in sorted(waiting):
        shares.served(tag)
        work[tenant] += cost
        left[tenant] -= 1
        if all(left.values()):
            assert abs(work["a"] - work["b"]) <= max(first) + max(second)


def test_a_newcomer_does_not_wait_behind_another_s_queue() -> None:
    shares = FairShares()
    queue = [shares.stamp("busy", 100) for _ in range(50)]
    shares.served(queue[0])
    shares.served(queue[1])
    assert shares.stamp("new", 100) <= queue[2]


def test_a_pause_earns_no_credit() -> None:
    shares = FairShares()
    for _ in range(9):
        shares.served(shares.stamp("busy", 100))
    assert shares.stamp("back", 100) == shares.stamp("busy", 100) - 100


def test_tenants_that_have_had_their_share_are_forgotten() -> None:
    shares = FairShares()
    for number in range(1000):
        shares.served(shares.stamp(f"tenant-{number}", 10) + 10)
    assert shares.tenants <= 1
