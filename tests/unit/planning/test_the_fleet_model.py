"""The model of a fleet: each request is judged once, an idle replica is as fast as its step time says, and nothing is lost."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from tests.unit.planning.cases import CASE, ENGINE, steady
from tierwright.planning.autoscaler import Autoscaler, Fixed, Reading, reading, simulate
from tierwright.planning.case import Scaled, Static, as_written
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Outcome, Policy, Run, Snapshot, replay

RUN = Run(ENGINE, initial=1, cold_start=60.0)


class Script:
    """Asks for what a table says at each time."""

    name = "script"

    def __init__(self, *asked: tuple[float, int]) -> None:
        self.asked = dict(asked)
        self.seen: list[Snapshot[Reading]] = []

    def tick(self, seen: Snapshot[Reading]) -> int | None:
        self.seen.append(seen)
        return self.asked.get(seen.now)


def run(
    requests: list[Request],
    policy: Policy[Reading],
    settings: Run = RUN,
    uniform: Callable[[], float] = lambda: 0.5,
) -> Outcome:
    return replay(requests, policy, settings, reading, uniform)


@pytest.mark.parametrize(("prompt", "chunks"), [(100, 1), (2048, 1), (2049, 2), (10_000, 5)])
def test_the_first_token_of_an_idle_replica_comes_when_its_step_time_says(prompt: int, chunks: int) -> None:
    soonest = ENGINE.soonest(prompt, 2048)
    assert soonest == pytest.approx(chunks * ENGINE.fixed + prompt * ENGINE.prefill)
    for limit, misses in ((soonest * 1.001, 0), (soonest * 0.999, 1)):
        outcome = run([Request(5.0, prompt, 1)], Fixed(1), replace(RUN, ttft=limit))
        assert (outcome.requests, outcome.first_token_misses) == (1, misses)


def test_the_time_per_token_of_an_idle_replica_is_that_of_its_step() -> None:
    fastest = ENGINE.fastest(1000, 200)
    for limit, misses in ((fastest * 1.001, 0), (fastest * 0.999, 1)):
        outcome = run([Request(5.0, 1000, 200)], Fixed(1), replace(RUN, tpot=limit))
        assert (outcome.requests, outcome.per_token_misses) == (1, misses)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("rate", [0.5, 30.0], ids=["calm", "overload"])
def test_every_request_is_judged_once(replicas: int, rate: float) -> None:
    requests = steady(rate, 300)
    outcome = run(requests, Fixed(replicas), replace(RUN, initial=replicas))
    assert outcome.requests == len(requests)
    assert sum(seen for seen, _ in outcome.by_minute.values()) == len(requests)


def test_what_misses_both_objectives_is_one_miss() -> None:
    outcome = run(steady(30.0, 60), Fixed(1), replace(RUN, ttft=0.001, tpot=0.001))
    assert outcome.misses == outcome.first_token_misses == outcome.per_token_misses == outcome.requests
    assert outcome.attainment == 0.0


def test_without_a_limit_nothing_misses() -> None:
    assert run(steady(30.0, 60), Fixed(1), replace(RUN, ttft=inf, tpot=inf)).misses == 0


def test_requests_wait_for_the_first_replica_and_are_judged_from_their_arrival() -> None:
    policy = Script((20.0, 1))
    outcome = run(
        [Request(1.0, 10, 1), Request(2.0, 10, 1), Request(200.0, 10, 1)], policy, replace(RUN, initial=0)
    )
    assert [seen.queued for seen in policy.seen[:3]] == [2, 2, 2]
    assert (outcome.requests, outcome.first_token_misses) == (3, 2)
    assert policy.seen[-1].queued == 0


def test_requests_that_no_replica_ever_takes_have_missed() -> None:
    outcome = run([Request(1.0, 10, 10)], Fixed(0), replace(RUN, initial=0))
    assert (outcome.requests, outcome.misses, outcome.hours) == (1, 1, 0.0)


def test_a_start_takes_the_cold_start_and_is_paid_for() -> None:
    policy = Script((10.0, 3))
    outcome = run(steady(0.1, 200), policy)
    assert [len(seen.starting) for seen in policy.seen[:8]] == [0, 2, 2, 2, 2, 2, 0, 0]
    assert [seen.ready for seen in policy.seen[:8]] == [1, 1, 1, 1, 1, 1, 3, 3]
    assert policy.seen[1].starting == (10.0, 10.0)
    paid = 10.0 * (1 + 3 * (len(policy.seen) - 1))
    assert outcome.hours == pytest.approx(paid / 3600)
    assert outcome.peak == 3
    assert [change.billed for change in outcome.changes] == [1, 3, 3]


def test_a_start_that_fails_stays_a_start() -> None:
    policy = Script((10.0, 2))
    outcome = run(steady(0.1, 300), policy, replace(RUN, failure=0.6))
    assert policy.seen[-1].ready == 1
    assert len(policy.seen[-1].starting) == 1
    assert outcome.requests == 30


def test_a_replica_that_goes_ends_its_requests_first() -> None:
    policy = Script((100.0, 1))
    requests = [*steady(1.0, 100, output=2000), Request(400.0, 10, 1)]
    outcome = run(requests, policy, replace(RUN, initial=2))
    assert outcome.requests == 101
    assert [change.billed for change in outcome.changes][:2] == [2, 2]
    assert outcome.changes[-1].billed == 1


def test_starts_are_taken_back_before_replicas() -> None:
    policy = Script((10.0, 3), (20.0, 1))
    outcome = run(steady(0.1, 200), policy)
    assert outcome.changes[-1].ready == 1
    assert outcome.reversals == 1
    assert outcome.peak == 3


def test_neither_misses_nor_hours_count_before_the_score_begins() -> None:
    outcome = run(steady(1.0, 600), Fixed(1), replace(RUN, score_from=300.0))
    assert outcome.requests == 300
    assert outcome.hours * 3600 == pytest.approx(outcome.seconds)
    assert 300 <= outcome.seconds <= 450


def test_pages_are_as_old_as_the_lag_and_missing_in_an_outage() -> None:
    policy = Script()
    run(steady(1.0, 300), policy, replace(RUN, outage=(100.0, 150.0)))
    told = {seen.now: seen.page for seen in policy.seen}
    assert all(told[now] is None for now in (100.0, 110.0, 120.0, 130.0, 140.0))
    page = told[200.0]
    assert page is not None
    assert page[0] == 180.0


def test_a_batch_as_large_as_the_chunk_still_computes_prompts() -> None:
    outcome = run(steady(5.0, 60, prompt=20, output=200), Fixed(1), replace(RUN, chunk=4, sequences=64))
    assert outcome.requests == 300


def test_no_more_run_than_the_engine_takes() -> None:
    policy = Script()
    outcome = run(steady(10.0, 60), policy, replace(RUN, sequences=3))
    assert outcome.requests == 600
    assert max(seen.page[1].running for seen in policy.seen if seen.page) <= 3


def test_no_request_is_no_outcome() -> None:
    outcome = run([], Fixed(1))
    assert (outcome.requests, outcome.attainment) == (0, 1.0)


def test_the_same_requests_give_the_same_figures() -> None:
    requests = steady(3.0, 300)
    assert simulate(CASE, as_written(CASE), requests) == simulate(CASE, as_written(CASE), iter(requests))


def test_the_autoscaler_grows_with_the_load_and_shrinks_after_it() -> None:
    calm, rush = steady(0.5, 300), steady(12.0, 400, prompt=2000)
    requests = [*calm, *(Request(300 + each.at, *each[1:]) for each in rush)]
    requests += [Request(700 + each.at, *each[1:]) for each in steady(0.5, 2400)]
    found = simulate(CASE, replace(as_written(CASE), hold=300.0), requests)
    assert found.peak >= 4
    assert found.changes[-1].wanted < found.peak - 1
    assert found.attainment > simulate(CASE, Static(1), requests).attainment


def test_a_tier_that_may_sleep_is_woken_by_a_request() -> None:
    case = replace(CASE, settings=replace(CASE.settings, minimum=0), start=0)
    found = simulate(case, Scaled(0, 0.95, 600.0), [Request(5.0, 10, 10), Request(400.0, 10, 10)])
    assert found.requests == 2
    assert found.attainment == 0.5


def test_a_start_is_measured_by_the_autoscaler() -> None:
    case = replace(CASE, settings=replace(CASE.settings, cold_start=300.0), start=1)
    found = simulate(case, as_written(case), steady(12.0, 450, prompt=2000))
    assert found.peak > 1
    assert max(change.ready for change in found.changes) > 1


def test_the_autoscaler_holds_where_it_sees_nothing() -> None:
    autoscaler = Autoscaler(CASE.settings)
    assert autoscaler.tick(Snapshot(10.0, None, 3, (), 3)) is None


def test_replicas_without_room_wait_unbilled_and_start_when_there_is_room_again() -> None:
    policy = Script((20.0, 4))
    outcome = run(steady(0.5, 300), policy, replace(RUN, shortage=(0.0, 100.0, 2)))
    at = {change.at: change for change in outcome.changes}
    assert (at[30.0].wanted, at[30.0].ready, at[30.0].billed) == (4, 1, 2)
    assert (at[80.0].ready, at[80.0].billed) == (2, 2)
    assert (at[100.0].ready, at[100.0].billed) == (2, 4)
    assert outcome.changes[-1][1:] == (4, 4, 4)
    ages = {seen.now: seen.starting for seen in policy.seen}
    assert ages[90.0] == (70.0, 70.0)


def test_what_waits_for_room_is_given_up_first() -> None:
    policy = Script((20.0, 4), (50.0, 2))
    outcome = run(steady(0.5, 200), policy, replace(RUN, shortage=(0.0, 1e9, 2)))
    assert outcome.changes[-1][1:] == (2, 2, 2)
    assert next(seen for seen in policy.seen if seen.now == 60.0).starting == (40.0,)
