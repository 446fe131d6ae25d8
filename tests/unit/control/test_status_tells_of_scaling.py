"""ScalingActive, ObjectivesMet, latency and recommendation follow the autoscaler's view; a restart of the operator changes none."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.control.pods import get, ready_pod, snapshot, status_of, tier
from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import TierStatus
from tierwright.capacity.decision import Decision, Inputs
from tierwright.capacity.decision import Reason as Why
from tierwright.capacity.plan import Plan
from tierwright.control.decision_words import REASONS, words_of
from tierwright.control.scaler import Held, decide
from tierwright.control.status.transitions import ORDINARY, transitions
from tierwright.observe.snapshot import LatencyView, ScalingView, Snapshot

AUTO = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 6, "objectives": {"timeToFirstToken": "500ms"}}
LATENCY = LatencyView("340ms", "21ms", "99.1%", kept=True)
VIEW = ScalingView(2, 2, Reason.STEADY, "2 replicas kept (demand=0.9)", True, LATENCY)


def seen(view: ScalingView | None, *, live: int = 2, **scaling: Any) -> Snapshot:
    """A tier of which the autoscaler says this."""
    spec = tier(scaling={**AUTO, **scaling})
    scale = decide(spec, Held(live=live), None, view)
    return snapshot(ready_pod("a"), ready_pod("b"), of=spec, wanted=2, scale=scale, scaling=view)


def told(status: TierStatus, kind: ConditionType) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = get(status, kind)
    return found.status, found.reason


def test_the_view_is_what_the_status_tells() -> None:
    status = status_of(seen(VIEW))
    assert told(status, ConditionType.SCALING_ACTIVE) == ("True", "Steady")
    assert get(status, ConditionType.SCALING_ACTIVE).message == "2 replicas kept (demand=0.9)"
    met = get(status, ConditionType.OBJECTIVES_MET)
    assert (met.status, met.reason) == ("True", "ObjectivesKept")
    assert met.message == "99.1% of the last hour's requests met all objectives; 95% are promised"
    assert status.latency is not None
    assert status.latency.time_to_first_token_p95 == "340ms"
    assert status.latency.attained == "99.1%"
    assert status.recommended_replicas == 2


def test_objectives_that_are_missed_are_told() -> None:
    missed = replace(VIEW, latency=replace(LATENCY, attained="93%", kept=False))
    assert told(status_of(seen(missed)), ConditionType.OBJECTIVES_MET) == ("False", "ObjectivesMissed")


def test_a_restart_of_the_operator_keeps_what_was_said_of_this_spec() -> None:
    before = status_of(seen(VIEW))
    assert status_of(seen(None), before) == before
    other = status_of(replace(seen(None), generation=4), before)
    assert told(other, ConditionType.SCALING_ACTIVE) == ("False", "StartValue")
    assert told(other, ConditionType.OBJECTIVES_MET) == ("Unknown", "NoMetrics")


def test_a_tier_that_rests_keeps_its_last_figures() -> None:
    before = status_of(seen(VIEW))
    resting = status_of(seen(replace(VIEW, latency=LatencyView())), before)
    assert resting.latency == before.latency
    assert told(resting, ConditionType.OBJECTIVES_MET) == ("True", "ObjectivesKept")


def test_without_objectives_there_are_no_figures() -> None:
    before = status_of(seen(VIEW))
    plain = status_of(snapshot(ready_pod()), before)
    assert plain.latency is None
    assert plain.recommended_replicas is None


def test_without_metrics_nothing_follows_the_load_and_the_number_stays() -> None:
    view = replace(
        VIEW, wanted=None, reason=Reason.METRICS_UNAVAILABLE, message="pod a: status 503", follows_load=False
    )
    snap = seen(view, live=3)
    assert snap.scale is not None
    assert snap.scale.wanted == 3
    assert told(status_of(snap), ConditionType.SCALING_ACTIVE) == ("False", "MetricsUnavailable")


def test_a_recommendation_leaves_the_replicas_to_the_spec() -> None:
    view = replace(VIEW, wanted=None, recommended=5, reason=Reason.DEMAND_GREW, message="words")
    snap = seen(view, mode="Recommend")
    assert snap.scale is not None
    assert snap.scale.wanted == 2
    status = status_of(snap)
    assert told(status, ConditionType.SCALING_ACTIVE) == ("False", "Recommending")
    assert (
        "5 replicas are recommended, DemandGrew: words" in get(status, ConditionType.SCALING_ACTIVE).message
    )
    assert status.recommended_replicas == 5


@pytest.mark.parametrize(
    ("wanted", "asked"), [(0, 1), (1, 1), (4, 4), (9, 6)], ids=["below", "least", "within", "above"]
)
def test_what_the_autoscaler_asks_for_is_held_to_the_bounds_of_today(wanted: int, asked: int) -> None:
    assert (
        decide(tier(scaling=AUTO), Held(live=2), None, replace(VIEW, wanted=wanted, instead_of=2)).wanted
        == asked
    )


def test_a_view_from_before_a_suspension_does_not_set_the_start_value() -> None:
    assert decide(tier(replicas=3, scaling=AUTO), Held(), None, VIEW).wanted == 3


def test_warnings_of_the_pages_stand_beside_those_of_the_spec_and_are_not_said_twice() -> None:
    view = replace(VIEW, warnings=("objectives.timeToFirstToken: only at 0.1 s and 1 s",))
    snap = seen(view)
    assert "spec.scaling.objectives.timeToFirstToken: only at 0.1 s and 1 s" in (
        status_of(snap).warnings or ()
    )
    assert snap.facts is not None
    said = replace(snap.facts, warnings=("spec.scaling.objectives.timeToFirstToken: no bound",))
    assert status_of(replace(snap, facts=said)).warnings == list(said.warnings)


def test_another_number_of_replicas_is_an_event_with_its_reason() -> None:
    before = status_of(seen(VIEW))
    grown = replace(VIEW, wanted=4, reason=Reason.DEMAND_GREW, message="4 replicas asked for instead of 2")
    spec = tier(scaling=AUTO)
    after = status_of(
        snapshot(
            ready_pod("a"),
            ready_pod("b"),
            of=spec,
            wanted=4,
            scale=decide(spec, Held(live=2), None, grown),
            scaling=grown,
        ),
        before,
    )
    found = [each for each in transitions(before, after) if each.reason == "DemandGrew"]
    assert [(each.type, each.message) for each in found] == [("Normal", "4 replicas asked for instead of 2")]
    assert [each for each in transitions(after, after) if each.reason == "DemandGrew"] == []


def test_a_cause_that_a_person_must_act_on_is_a_warning() -> None:
    before = status_of(seen(VIEW))
    for reason in (
        Reason.METRICS_UNAVAILABLE,
        Reason.PARTIAL_METRICS,
        Reason.POOL_FULL,
        Reason.AT_MAXIMUM,
        Reason.STARTS_FAIL,
    ):
        assert reason not in ORDINARY
        after = status_of(seen(replace(VIEW, reason=reason)), before)
        assert [(each.type, each.reason) for each in transitions(before, after)] == [("Warning", reason)]


def test_every_reason_of_the_policy_has_one_in_the_api() -> None:
    assert set(REASONS) == set(Why)


PLAN = Plan(
    rate=1234.0, backlog=0.0, demand=1.234, expected=2.04, horizon=205.0, allowed=0.05, price=20.0, missing=0.0123,
    floor=0.0, holds=0.531, dispersion=1.0, replicas=3, lasting=3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            Decision(3, Why.DEMAND_GREW, Inputs(1, 1, 0, 2, PLAN)),
            "3 replicas asked for instead of 2: the load of 1.2 replicas at their limit arrives, of 2 is expected in 200 s, "
            "and objectives hold up to 0.53 of the limit (ready=1 starting=1 "
            "failing=0 wanted=2 unplaced=0 rate=1200 backlog=0 demand=1.2 expected=2 horizon=200 missing=0.012 "
            "allowed=0.05 price=20 floor=0 holds=0.53)",
        ),
        (
            Decision(None, Why.NO_METRICS, Inputs(1, 0, 0, 1)),
            "1 replica kept: nothing was measured; pod a: gone (ready=1 starting=0 failing=0 wanted=1 unplaced=0)",
        ),
        (
            Decision(0, Why.IDLE, Inputs(1, 0, 0, 1, PLAN)),
            "0 replicas asked for instead of 1: no request comes (ready=1 starting=0 failing=0 wanted=1 unplaced=0 "
            "rate=1200 backlog=0 demand=1.2 expected=2 horizon=200 missing=0.012 allowed=0.05 "
            "price=20 floor=0 holds=0.53)",
        ),
        (
            Decision(2, Why.POOL_FULL, Inputs(2, 0, 0, 2, PLAN), unplaced=1),
            "2 replicas kept: the load of 1.2 replicas at their limit arrives, of 2 is expected in 200 s, and objectives hold "
            "up to 0.53 of the limit; no room for 1 more (ready=2 starting=0 "
            "failing=0 wanted=2 unplaced=1 rate=1200 backlog=0 demand=1.2 expected=2 horizon=200 missing=0.012 "
            "allowed=0.05 price=20 floor=0 holds=0.53)",
        ),
    ],
    ids=["more", "no metrics", "idle", "full"],
)  # fmt: skip
def test_a_decision_is_one_sentence_and_its_figures(decision: Decision, message: str) -> None:
    assert words_of(decision, "pod a: gone").message == message


def test_a_promise_that_no_number_of_replicas_keeps_is_told() -> None:
    decision = Decision(3, Why.STEADY, Inputs(3, 0, 0, 3, replace(PLAN, floor=0.123)))
    told = words_of(decision, promised=0.95).message
    assert (
        "; about 12% of requests miss the objectives with any number of replicas, and 5% may: loosen scaling.objectives"
        in told
    )
    for words in (words_of(decision, promised=0.8), words_of(decision)):
        assert "any number" not in words.message
