"""Failures that users of other autoscalers reported, each replayed: the trigger, and what is right."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.unit.capacity.tiers import SETTINGS, START, WORK, Tier, fleet, minutes, pod
from tierwright.capacity.decision import Reason
from tierwright.capacity.policy import step
from tierwright.capacity.samples import Judged, Observation
from tierwright.capacity.state import TierState


def settled(ready: int, rate: float) -> Tier:
    """A tier that has run for an hour at this rate."""
    tier = Tier(ready=ready)
    tier.run(minutes(60, rate))
    return tier


def test_demand_at_zero_ends_at_the_minimum() -> None:
    """aibrix#593: the metric is at zero and seven pods remain."""
    tier = Tier(ready=7)
    tier.run(minutes(40, 0.0))
    assert tier.wanted == SETTINGS.minimum


def test_a_tier_that_may_sleep_sleeps_and_wakes() -> None:
    tier = Tier(settings=replace(SETTINGS, minimum=0), ready=2)
    tier.run(minutes(2, 1.0))
    assert all(decision.replicas for decision in tier.run(minutes(9, 0.0)))
    tier.run(minutes(8, 0.0))
    assert tier.wanted == 0
    assert tier.tick().reason == Reason.IDLE
    woken = tier.tick(change=lambda seen: replace(seen, queued=1.0))
    assert (woken.replicas, woken.reason) == (1, Reason.WOKEN)
    assert tier.tick().reason == Reason.STARTING


def test_a_leader_that_takes_over_without_state_does_not_shrink_nor_flap() -> None:
    """kubeai#67, kubeai#383: a new leader starts with an empty memory."""
    tier = settled(5, 20.0)
    before = tier.wanted
    tier.state = TierState()
    taken = tier.run(minutes(5, 20.0))
    assert min(decision.replicas or before for decision in taken) >= before


def test_a_worker_that_cannot_start_does_not_keep_others_from_going() -> None:
    """dynamo#14251: a start hangs, demand falls, scale-down waits for the start."""
    tier = settled(6, 40.0)
    tier.starting, tier.cold_start = [tier.now - 5000], 1e9
    before = tier.wanted
    tier.run(minutes(30, 1.0))
    assert tier.wanted < before - 2


def test_no_answer_is_not_no_demand() -> None:
    """llm-d PR#1981, dynamo PR#14575: an outage of the metrics drives replicas to the minimum."""
    tier = settled(6, 40.0)
    before = tier.wanted
    for _ in range(180):
        decision = tier.tick(40.0, change=lambda seen: replace(seen, pods=()))
        assert (decision.replicas, decision.reason) == (None, Reason.NO_METRICS)
    assert tier.wanted == before
    after = tier.run(minutes(9, 1.0))
    assert min(decision.replicas or 0 for decision in after) >= before, (
        "the window begins anew after an outage"
    )


def test_a_saturated_fleet_grows_though_nothing_ends() -> None:
    """dynamo PR#8861: demand taken from completions keeps a saturated fleet at one replica."""
    tier = settled(1, 4.0)
    waiting = 0.0
    for _ in range(30):
        waiting += 300.0
        stuck = {"prefilled": 10.0, "waiting": waiting, "running": 50.0}
        tier.tick(30.0, change=lambda seen, s=stuck: replace(seen, pods=fleet(30.0, seen.ready, **s)))  # type: ignore[misc]
    assert tier.wanted > 30 * WORK


def test_cold_start_samples_do_not_poison_the_model() -> None:
    """dynamo#12430: steps of a pod that still compiles lead to a huge overscale."""
    tier = settled(3, 15.0)
    before = tier.decisions[-1].inputs.plan
    slow = pod(50.0, age=20.0, token_seconds=2.0, first_token=Judged(50, 50), per_token=Judged(50, 50))
    for _ in range(60):
        tier.tick(15.0, change=lambda seen: replace(seen, pods=(*seen.pods[1:], slow)))
    after = tier.decisions[-1].inputs.plan
    assert before is not None
    assert after is not None
    assert after.replicas <= before.replicas + 1


def test_a_pod_that_is_not_ready_does_not_block_the_tier() -> None:
    """aibrix#617: one not-ready pod is a metric error, and the tier is stuck."""
    tier = settled(3, 10.0)
    tier.starting, tier.cold_start = [tier.now], 1e9
    tier.run(minutes(4, 60.0))
    assert tier.wanted > 4


def test_noise_does_not_flip_the_replicas() -> None:
    """llm-d-autoscaling#1427, dynamo PR#9294, ray#18925: replicas go up and down with every gust."""
    tier = settled(4, 20.0)
    wanted = []
    for number in range(360):
        tier.tick(20.0 * (1.3 if number % 7 < 3 else 0.8))
        wanted.append(tier.wanted)
    changes = [b - a for a, b in pairwise(wanted) if b != a]
    reversals = sum((a > 0) != (b > 0) for a, b in pairwise(changes))
    assert reversals <= 2


def test_starting_replicas_are_counted_once() -> None:
    """dynamo#12428 and the HPA: backlog outlives the starts, and each tick asks for more."""
    tier = settled(2, 8.0)
    calls = [decision.replicas or 0 for decision in tier.run(minutes(12, 40.0))]
    assert max(calls) <= 2 * calls[-1]


def test_failed_starts_leave_the_credit() -> None:
    tier = settled(3, 15.0)
    tier.starting, tier.cold_start = [tier.now - 2000], 1e9
    decision = tier.tick(15.0)
    assert decision.inputs.failing == 1


def test_a_full_pool_is_said_and_not_pressed() -> None:
    """dynamo#12428: more than the pool holds, pending for ever."""
    tier = settled(2, 8.0)
    decisions = [tier.tick(200.0, change=lambda seen: replace(seen, placeable=3)) for _ in range(30)]
    assert max(decision.replicas or 0 for decision in decisions) == 3
    assert decisions[-1].reason == Reason.POOL_FULL
    assert decisions[-1].unplaced > 0
    assert "no room" in decisions[-1].message()


def test_objectives_that_no_replica_can_meet_are_not_chased() -> None:
    tier = Tier(ready=2)
    for _ in range(6 * 90):
        bad = {"first_token": Judged(50.0, 15.0)}
        tier.tick(10.0, change=lambda seen, b=bad: replace(seen, pods=fleet(10.0, seen.ready, **b)))  # type: ignore[misc]
    plan = tier.decisions[-1].inputs.plan
    assert plan is not None
    assert plan.floor == pytest.approx(0.3, abs=0.1)
    assert plan.allowed > plan.floor
    assert tier.wanted < 8


def test_the_first_tick_of_a_tier_decides_nothing_rash() -> None:
    seen = Observation(fleet(5.0, 3), ready=3, wanted=3)
    decision = step(SETTINGS, TierState(), seen, START).decision
    assert decision.replicas is not None
    assert decision.replicas >= 3
    assert "replicas arrives" in decision.message()


def test_a_decision_without_data_says_so() -> None:
    decision = step(SETTINGS, TierState(), Observation((), ready=3, wanted=3), START).decision
    assert decision.message() == "no decision: 3 ready, 0 starting, 3 asked for"
