"""Laws of the scheduler: tokens conserved, budgets kept, first come first served, times equal to the formula."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.engine_sim.kv_cache import KvCache
from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.speculation import Speculation
from dev.engine_sim.step_time import StepTimeModel
from dev.engine_sim.steps import Limits, Request
from dev.engine_sim.text import block_hashes
from tests.unit.engine_sim.virtual_time import run_to_end

STEP_TIME = StepTimeModel(0.010, 0.0001, 0.000001, 0.00005, 0.0002)


def scheduler_of(
    *,
    sequences: int = 8,
    batched_tokens: int = 512,
    blocks: int = 1000,
    speculation: Speculation | None = None,
    prefix_caching: bool = True,
    **limits: int | bool | None,
) -> Scheduler:
    return Scheduler(
        Limits(sequences, batched_tokens, **limits),  # type: ignore[arg-type]  # each test names fields of Limits
        STEP_TIME,
        KvCache(blocks, 16, prefix_caching),
        speculation,
    )


def request(name: str, prompt: int, output: int, *, text: str = "", right: bool = True) -> Request:
    pieces = [f"{text or name}{i}" for i in range(prompt + output)]
    return Request(name, prompt, output, block_hashes(pieces, 16), (right,) * output)


requests = st.lists(
    st.tuples(st.integers(1, 200), st.integers(1, 60), st.sampled_from("abc"), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(
    requests,
    st.lists(st.floats(0, 3), max_size=12),
    st.integers(1, 6),
    st.integers(6, 300),
    st.integers(17, 80),
    st.booleans(),
    st.sampled_from([None, Speculation("ngram", 4), Speculation("eagle3", 3, ((3, 99, 0),))]),
    st.integers(0, 64),
)
@settings(max_examples=150, deadline=None)
def test_every_request_gets_exactly_its_tokens_within_all_budgets(
    shapes: list[tuple[int, int, str, bool]],
    arrivals: list[float],
    sequences: int,
    batched_tokens: int,
    blocks: int,
    prefix_caching: bool,
    speculation: Speculation | None,
    threshold: int,
) -> None:
    scheduler = scheduler_of(
        sequences=sequences,
        batched_tokens=batched_tokens,
        blocks=blocks,
        speculation=speculation,
        prefix_caching=prefix_caching,
        long_prefill_threshold=threshold,
    )
    wanted = {
        f"r{i}": request(f"r{i}", prompt, output, text=text, right=right)
        for i, (prompt, output, text, right) in enumerate(shapes)
    }
    run = run_to_end(scheduler, list(wanted.values()), arrivals[: len(wanted)])
    assert run.tokens == {name: item.output_tokens for name, item in wanted.items()}
    for name, progress in run.finished.items():
        record = progress.record
        assert record is not None
        assert (record.prompt_tokens, record.output_tokens) == (
            wanted[name].prompt_tokens,
            wanted[name].output_tokens,
        )
        assert record.arrived <= record.scheduled <= record.first_token <= record.last_token
        assert 0 <= record.cached_tokens < record.prompt_tokens
    assert scheduler.kv_cache.used == 0
    assert (scheduler.waiting, scheduler.running) == (0, 0)


@given(requests, st.integers(1, 4), st.integers(17, 60))
@settings(max_examples=100, deadline=None)
def test_requests_start_in_the_order_of_arrival(
    shapes: list[tuple[int, int, str, bool]], sequences: int, blocks: int
) -> None:
    wanted = [
        request(f"r{i}", prompt, output, text=text) for i, (prompt, output, text, _) in enumerate(shapes)
    ]
    run = run_to_end(scheduler_of(sequences=sequences, batched_tokens=64, blocks=blocks), wanted)
    assert run.admitted == [item.request_id for item in wanted]


def test_a_request_alone_takes_the_time_of_the_formula() -> None:
    run = run_to_end(scheduler_of(batched_tokens=100), [request("only", 250, 5)])
    chunks = [(100, 0), (100, 100), (50, 200)]
    prefill = sum(0.010 + 0.0001 + 0.000001 * context + 0.00005 * tokens for tokens, context in chunks)
    decode = sum(0.010 + 0.0001 + 0.000001 * (250 + i) for i in range(4))
    record = run.finished["only"].record
    assert record is not None
    assert record.first_token == pytest.approx(prefill)
    assert record.last_token == pytest.approx(prefill + decode)


def test_a_batch_of_decodes_takes_the_time_of_the_formula() -> None:
    scheduler = scheduler_of()
    for name in "abc":
        scheduler.add(request(name, 20, 9), 0.0)
    first = scheduler.plan(0.0)
    assert first is not None
    assert first.seconds == pytest.approx(0.010 + 0.0001 * 3 + 0.00005 * 60)
    scheduler.complete(first, first.seconds)
    second = scheduler.plan(first.seconds)
    assert second is not None
    assert second.seconds == pytest.approx(0.010 + 0.0001 * 3 + 0.000001 * 60)


def test_right_drafts_are_accepted_up_to_the_first_wrong_one() -> None:
    draftable = (True, True, True, False, True, True, True, True, True, True)
    scheduler = scheduler_of(speculation=Speculation("ngram", 4))
    run = run_to_end(scheduler, [Request("r", 10, 10, (), draftable)])
    # Token 0 comes with the prefill; then 1-3 (two right drafts, the wrong one replaced), then 4-8, then 9.
    assert [sum(item.new_tokens for item in outcome.progress) for _, outcome in run.steps] == [1, 3, 5, 1]
    assert [outcome.accepted_runs for _, outcome in run.steps] == [(), (2,), (4,), ()]


def test_wrong_drafts_cost_time_and_give_nothing() -> None:
    plain = run_to_end(scheduler_of(), [request("r", 10, 10, right=False)])
    guessed = run_to_end(
        scheduler_of(speculation=Speculation("eagle3", 4)), [request("r", 10, 10, right=False)]
    )
    assert len(guessed.steps) == len(plain.steps)
    assert guessed.now > plain.now


def test_speculation_shrinks_with_the_batch_where_the_configuration_says_so() -> None:
    speculation = Speculation("ngram", 4, ((2, 1024, 0),))
    alone = run_to_end(scheduler_of(speculation=speculation), [request("a", 10, 30)])
    together = run_to_end(scheduler_of(speculation=speculation), [request("a", 10, 30), request("b", 10, 30)])
    assert sum(outcome.draft_tokens for _, outcome in alone.steps) > 0
    assert sum(outcome.draft_tokens for _, outcome in together.steps) == 0


def test_a_full_kv_cache_preempts_the_youngest_and_loses_nothing() -> None:
    scheduler = scheduler_of(blocks=5, prefix_caching=False)
    run = run_to_end(scheduler, [request("old", 30, 40), request("young", 30, 40)])
    assert sum(outcome.preemptions for _, outcome in run.steps) > 0
    old, young = run.finished["old"].record, run.finished["young"].record
    assert old is not None
    assert young is not None
    assert (old.preemptions, old.output_tokens) == (0, 40)
    assert young.preemptions > 0
    assert young.output_tokens == 40


def test_a_long_prompt_does_not_stall_running_decodes_under_chunked_prefill() -> None:
    scheduler = scheduler_of(batched_tokens=64)
    scheduler.add(request("short", 10, 50), 0.0)
    plan = scheduler.plan(0.0)
    assert plan is not None
    scheduler.complete(plan, 1.0)
    scheduler.add(request("long", 1000, 5), 1.0)
    for _ in range(10):
        plan = scheduler.plan(1.0)
        assert plan is not None
        assert [item.request_id for item in plan.work] == ["short", "long"]
        assert plan.work[1].prefill == 63
        scheduler.complete(plan, 1.0)


def test_a_shared_prefix_is_computed_once() -> None:
    scheduler = scheduler_of(sequences=1)
    run = run_to_end(scheduler, [request("a", 100, 5, text="same"), request("b", 100, 5, text="same")])
    first, second = run.finished["a"].record, run.finished["b"].record
    assert first is not None
    assert second is not None
    assert (first.cached_tokens, second.cached_tokens) == (0, 96)
    assert sum(outcome.prefix_hits for _, outcome in run.steps) == 96
    assert sum(outcome.prefix_queries for _, outcome in run.steps) == 200


def test_an_aborted_request_gives_its_blocks_back_and_the_others_go_on() -> None:
    scheduler = scheduler_of()
    for name in "abc":
        scheduler.add(request(name, 20, 30), 0.0)
    plan = scheduler.plan(0.0)
    assert plan is not None
    assert scheduler.abort("b")
    outcome = scheduler.complete(plan, 1.0)
    assert [progress.request_id for progress in outcome.progress] == ["a", "c"]
    assert not scheduler.abort("b")
    assert scheduler.abort("a")
    assert scheduler.abort("c")
    assert scheduler.kv_cache.used == 0
    assert scheduler.plan(1.0) is None


def test_queue_limits_name_the_one_that_refuses() -> None:
    scheduler = scheduler_of(sequences=1, max_queued_requests=3, max_queued_tokens=150)
    assert scheduler.rejection(3) is None
    assert scheduler.rejection(4) == "max_num_queued_reqs"
    scheduler.add(request("a", 100, 5), 0.0)
    assert scheduler.rejection(1) is None
    scheduler.add(request("b", 100, 5), 0.0)
    assert scheduler.rejection(1) == "max_num_queued_tokens"
    plan = scheduler.plan(0.0)
    assert plan is not None
    scheduler.complete(plan, 1.0)
    assert scheduler.rejection(1) is None, "a request that has its first token is no prefill backlog any more"
    assert scheduler.rejection(2) == "max_num_queued_reqs"


def test_a_request_that_no_empty_cache_could_hold_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="more than the whole KV cache"):
        scheduler_of(blocks=4).add(request("r", 60, 5), 0.0)
    with pytest.raises(ValueError, match="at least one token"):
        scheduler_of().add(request("r", 0, 5), 0.0)
