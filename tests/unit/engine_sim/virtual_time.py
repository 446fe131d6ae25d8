"""Runs a scheduler to the end in virtual time, checking at every step the laws that must always hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.steps import Progress, Request, StepOutcome, StepPlan


@dataclass
class Run:
    """What happened: finished requests by id in order, and every step with its outcome."""

    now: float = 0.0
    finished: dict[str, Progress] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[StepPlan, StepOutcome]] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)


def run_to_end(scheduler: Scheduler, requests: Sequence[Request], arrivals: Sequence[float] = ()) -> Run:
    """Add each request at its arrival (default 0) and run until all are finished."""
    run = Run()
    due = sorted(
        zip([*arrivals, *[0.0] * (len(requests) - len(arrivals))], requests, strict=True), key=lambda e: e[0]
    )
    while due or scheduler.waiting or scheduler.running:
        while due and due[0][0] <= run.now:
            scheduler.add(due.pop(0)[1], run.now)
        plan = scheduler.plan(run.now)
        if plan is None:
            assert due, "nothing to do although requests are left: a stuck queue"
            run.now = due[0][0]
            continue
        check_plan(scheduler, plan)
        run.admitted += [item.request_id for item in plan.work if item.request_id not in run.admitted]
        run.now += plan.seconds
        outcome = scheduler.complete(plan, run.now)
        run.steps.append((plan, outcome))
        for progress in outcome.progress:
            run.tokens[progress.request_id] = run.tokens.get(progress.request_id, 0) + progress.new_tokens
            if progress.record is not None:
                run.finished[progress.request_id] = progress
        assert len(run.steps) < 100_000, "no end in sight"
    return run


def check_plan(scheduler: Scheduler, plan: StepPlan) -> None:
    """Batch, token and KV bounds of one step."""
    limits, kv_cache = scheduler.limits, scheduler.kv_cache
    assert plan.work
    assert len(plan.work) == len({item.request_id for item in plan.work})
    assert scheduler.running <= limits.max_sequences
    assert sum(item.prefill or 1 + item.drafts for item in plan.work) <= limits.max_batched_tokens
    assert 0 <= kv_cache.used <= kv_cache.used + kv_cache.idle <= kv_cache.total_blocks
