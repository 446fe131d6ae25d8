"""The whole way from pages to replicas: up and down with the load, still without data, and never down because of a restart."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.played_engines import WORK
from tests.unit.control.fleet import KEY, SCALING, Fleet, InMemory, status_of
from tierwright.api.conditions import Reason
from tierwright.api.parse import parse_tier
from tierwright.capacity.miss_curve import MissEvidence
from tierwright.capacity.state import load
from tierwright.control import scaler
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.kube.errors import ApiError
from tierwright.telemetry import autoscaling_names as names

QUIET, BUSY = 2.0, 50.0
"""Requests per second: one replica holds the objectives up to about 13."""


def falls(history: Sequence[int]) -> int:
    """How often it went down."""
    return sum(later < sooner for sooner, later in pairwise(history))


def test_a_ramp_drives_the_tier_from_one_to_several_and_back() -> None:
    fleet = Fleet()
    fleet.run(1200, QUIET)
    assert set(fleet.history) == {1}
    for rate in range(3, 40, 2):
        fleet.run(60, rate)
    fleet.run(300, 40.0)
    peak = fleet.replicas
    assert 4 <= peak <= 8
    busy = [each for each in fleet.engines if each.ready_at <= fleet.now]
    assert 40 * WORK / len(busy) < 0.6, "the objectives hold after the ramp"
    for rate in range(40, 2, -2):
        fleet.run(60, rate)
    fleet.run(1200, QUIET)
    assert fleet.replicas == 1
    assert falls(fleet.history) == peak - 1, "one at a time, and never to and fro"


def test_the_status_tells_what_users_get() -> None:
    fleet = Fleet()
    fleet.run(600, QUIET)
    view = fleet.view
    assert view is not None
    assert view.follows_load
    assert view.latency.attained == "100%"
    assert view.latency.kept is True
    assert view.latency.first_token_p95 == "460ms"
    assert view.recommended == 1
    assert "ready=1 starting=0 failing=0 wanted=1" in view.message
    fleet.run(130, 18.0)  # a shock: no second replica is ready before its first minute is over
    assert fleet.view is not None
    assert fleet.view.latency.kept is False, fleet.view


def test_an_outage_of_the_metrics_changes_nothing_and_is_told() -> None:
    fleet = Fleet()
    fleet.run(600, QUIET)
    fleet.run(600, BUSY)
    before = fleet.replicas
    fleet.silent = {each.uid for each in fleet.engines}
    fleet.run(900, QUIET)
    assert set(fleet.history[-90:]) == {before}
    view = fleet.view
    assert view is not None
    assert (view.reason, view.follows_load, view.wanted) == (Reason.METRICS_UNAVAILABLE, False, None)
    assert "pod pod-1: no whole page within 3 s" in view.message
    fleet.silent = set()
    fleet.run(240, QUIET)
    assert fleet.replicas == before, "a gap begins the window anew"


def test_a_restart_in_the_middle_of_a_ramp_never_shrinks_the_tier() -> None:
    for lost in (False, True):
        fleet = Fleet()
        fleet.run(900, QUIET)
        fleet.run(300, BUSY)
        before = fleet.replicas
        assert before > 1
        if lost:
            fleet.states.kept.clear()
        fleet.restart()
        assert fleet.view is None
        fleet.run(280, BUSY)
        assert falls(fleet.history[-29:]) == 0
        assert fleet.replicas >= before


def test_a_restart_on_a_quiet_day_waits_for_a_full_window_before_it_shrinks() -> None:
    fleet = Fleet()
    fleet.run(600, QUIET)
    fleet.run(600, BUSY)
    before = fleet.replicas
    fleet.restart()
    fleet.run(290, QUIET)
    assert set(fleet.history[-29:]) == {before}


def test_a_restart_between_the_replicas_and_the_status_takes_none_away() -> None:
    fleet = Fleet()
    fleet.run(900, QUIET)
    shown = fleet.view
    assert shown is not None
    fleet.status = status_of(shown)
    fleet.put_tier()
    fleet.run(300, BUSY)
    before = fleet.replicas
    assert before > 1
    fleet.restart()
    fleet.run(60, BUSY)
    assert min(fleet.history[-6:]) == before


def test_a_state_that_the_policy_fails_at_is_lost_and_learned_again() -> None:
    fleet = Fleet()
    fleet.run(900, QUIET)
    memory = fleet.autoscaler._memories[KEY]
    wrong = replace(memory.state, evidence=MissEvidence((0.0, 0.0)))
    fleet.autoscaler._memories[KEY] = replace(memory, state=wrong)
    fleet.run(600, BUSY)
    assert fleet.replicas > 1


def test_a_state_that_cannot_even_be_read_costs_what_was_learned_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet()
    fleet.run(300, QUIET)
    monkeypatch.setattr(InMemory, "load", lambda *_: 1 / 0)
    fleet.restart()
    fleet.run(600, BUSY)
    assert fleet.replicas > 1


FORBIDDEN = ApiError(403, "Forbidden", "configmaps is forbidden", request="GET llama-fast-autoscaler")


def slots_kept(fleet: Fleet) -> int:
    """Slots of the forecast that lies in the cluster."""
    kept = load(fleet.states.kept[fleet.uid][0])
    assert kept is not None
    return kept.forecast.slots


@pytest.mark.parametrize("error", [FORBIDDEN, ApiError(503, "ServiceUnavailable", "etcd is away")])
def test_what_may_be_there_and_cannot_be_read_is_not_overwritten_and_shrinks_nothing(error: ApiError) -> None:
    fleet = Fleet(scaling={**SCALING, "maxReplicas": 20})
    fleet.run(900, QUIET)
    fleet.run(300, 25.0)
    kept, before, slots = dict(fleet.states.kept), fleet.replicas, slots_kept(fleet)
    assert before > 1
    fleet.restart()
    fleet.states.error = error
    fleet.run(900, QUIET)
    assert fleet.states.kept == kept, "nothing is overwritten"
    assert fleet.replicas == before, "no replica goes"
    view = fleet.view
    assert view is not None
    assert view.reason is Reason.LEARNED_STATE_UNREADABLE
    assert view.message.startswith("what was learned earlier cannot be read, so no replica goes: ")
    assert error.message in view.message
    fleet.run(300, 60.0)
    assert fleet.replicas > before, "it still grows"
    fleet.states.error = None
    fleet.run(70, QUIET)
    assert fleet.state().forecast.slots in (slots, slots + 1), "what was learned before is known again"
    assert fleet.view is not None
    assert fleet.view.reason is not Reason.LEARNED_STATE_UNREADABLE
    fleet.run(900, QUIET)
    assert fleet.replicas < before + 1


def test_a_server_that_is_away_for_a_moment_costs_a_tick_and_is_not_told() -> None:
    fleet = Fleet()
    fleet.run(900, QUIET)
    slots = slots_kept(fleet)
    fleet.restart()
    fleet.states.error = ApiError(503, "ServiceUnavailable", "etcd is away")
    fleet.run(20, QUIET)
    assert fleet.view is None
    fleet.states.error = None
    fleet.run(10, QUIET)
    assert fleet.state().forecast.slots == slots


def test_a_state_that_turns_out_not_to_be_there_leaves_what_was_learned_since() -> None:
    fleet = Fleet()
    fleet.states.error = FORBIDDEN
    fleet.run(600, QUIET)
    slots = fleet.state().forecast.slots
    fleet.states.error = None
    fleet.run(70, QUIET)
    assert fleet.state().forecast.slots >= slots
    fleet.run(300, QUIET)
    assert fleet.states.kept


def test_in_mode_recommend_a_restart_shows_what_was_recommended_and_nothing_before_the_first_decision() -> (
    None
):
    fleet = Fleet(scaling={**SCALING, "mode": "Recommend"})
    fleet.run(10, BUSY)
    assert fleet.view is not None
    assert fleet.view.recommended is None, "spec.replicas is nobody's recommendation"
    fleet.run(900, QUIET)
    fleet.run(600, BUSY)
    shown = fleet.view
    assert shown is not None
    assert (shown.recommended or 0) >= 4
    decided = scaler.decide(fleet.tier, scaler.Held(live=1), None, shown)
    fleet.status = {
        **status_of(shown),
        "desiredReplicas": 1,
        "conditions": [
            {
                **status_of(shown)["conditions"][0],
                "status": "False",
                "reason": decided.reason,
                "message": decided.message,
            }
        ],
    }
    fleet.put_tier()
    fleet.restart()
    fleet.run(10, BUSY)
    assert fleet.view == replace(shown, latency=fleet.view.latency), "the first reading decides nothing yet"
    recommended = fleet.registry.get_sample_value(names.RECOMMENDED, {"namespace": KEY[0], "name": KEY[1]})
    assert recommended == shown.recommended


def test_an_outage_keeps_the_recommendation_that_others_follow() -> None:
    fleet = Fleet(scaling={**SCALING, "mode": "Recommend"})
    fleet.run(900, QUIET)
    fleet.run(600, BUSY)
    assert fleet.view is not None
    before = fleet.view.recommended
    fleet.silent = {each.uid for each in fleet.engines}
    fleet.run(300, BUSY)
    assert fleet.view is not None
    assert fleet.view.recommended == before
    labels = {"namespace": KEY[0], "name": KEY[1]}
    assert fleet.registry.get_sample_value(names.RECOMMENDED, labels) == before


def test_fewer_replicas_are_decided_on_only_of_the_number_that_was_seen() -> None:
    """kubeai#67: of two operators each takes away what it has seen, and neither what the other has added."""
    fleet = Fleet(scaling={**SCALING, "maxReplicas": 20})
    fleet.run(900, QUIET)
    fleet.run(600, 25.0)
    peak = fleet.replicas
    while fleet.replicas == peak:
        fleet.run(10, QUIET)
    fleet.replicas = peak + 3  # another operator, whose pods see more
    view = fleet.view
    assert view is not None
    assert scaler.decide(fleet.tier, scaler.Held(live=peak + 3), None, view).wanted == peak + 3
    fleet.put_workload()
    fleet.run(10, QUIET)
    assert fleet.replicas >= peak + 2, "the next look takes one of what it sees"


def test_a_wake_up_counts_as_kept_only_once_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(scaling={**SCALING, "minReplicas": 0})
    fleet.run(600, QUIET)
    fleet.run(1200, 0.0)
    fleet.annotations["tierwright.dev/wake"] = "please"
    fleet.put_tier()
    with monkeypatch.context() as broken:
        broken.setattr(InMemory, "save", lambda *_: 1 / 0)
        fleet.run(1200, 0.0)
    assert fleet.replicas == 0
    fleet.run(600, 0.0)
    fleet.restart()
    fleet.run(300, 0.0)
    assert set(fleet.history[-30:]) == {0}


def test_an_operator_that_stood_still_asks_for_nothing_before_it_has_looked_again() -> None:
    """kubeai#67: what was the leader once acts on what it knew then, and two of them flap."""
    fleet = Fleet()
    fleet.run(900, QUIET)
    fleet.run(120, BUSY)
    before = fleet.view
    assert before is not None
    assert before.wanted is not None
    fleet.now += 31.0
    thawed = fleet.view
    assert thawed is not None
    assert (thawed.wanted, thawed.message) == (None, before.message)
    fleet.changes.clear()
    fleet.run(10, BUSY)
    assert fleet.view is not None
    assert fleet.view.wanted is not None
    assert fleet.changes, "whatever was not carried out meanwhile is looked at again"


def test_a_restart_rewrites_nothing_of_a_settled_tier() -> None:
    fleet = Fleet()
    fleet.run(900, 0.0)
    shown = fleet.view
    assert shown is not None
    fleet.status = status_of(shown)
    fleet.put_tier()
    fleet.restart()
    fleet.run(60, 0.0)
    assert fleet.view == shown


def test_a_settled_tier_that_has_nothing_to_do_is_shown_once() -> None:
    fleet = Fleet()
    fleet.run(900, 0.0)
    fleet.changes.clear()
    fleet.states.writes.clear()
    fleet.run(1800, 0.0)
    assert fleet.changes == []
    assert fleet.states.writes == []


def test_a_busy_tier_is_shown_at_most_once_a_minute_and_written_every_five() -> None:
    fleet = Fleet()
    fleet.run(300, QUIET)
    fleet.changes.clear()
    fleet.states.writes.clear()
    for minute in range(30):
        fleet.run(60, QUIET * (1 + 0.2 * (minute % 3)))
    assert len(fleet.changes) <= 30
    assert 5 <= len(fleet.states.writes) <= 6


def test_a_tier_of_the_same_name_inherits_nothing() -> None:
    fleet = Fleet()
    fleet.run(1200, QUIET)
    assert fleet.state().forecast.slots > 0
    fleet.uid = "u-2"
    fleet.put_tier()
    fleet.put_workload()
    assert fleet.view is None
    fleet.run(20, QUIET)
    assert fleet.state().forecast.slots == 0


def test_a_recommendation_is_published_and_not_acted_on() -> None:
    fleet = Fleet(scaling={**SCALING, "mode": "Recommend"})
    fleet.run(900, QUIET)
    fleet.run(600, BUSY)
    assert set(fleet.history) == {1}
    assert fleet.view is not None
    assert fleet.view.wanted is None
    assert (fleet.view.recommended or 0) >= 4


def test_a_manual_tier_with_objectives_is_measured_and_nothing_more() -> None:
    fleet = Fleet(scaling={"mode": "Manual", "objectives": SCALING["objectives"]})
    fleet.run(900, BUSY)
    assert set(fleet.history) == {1}
    view = fleet.view
    assert view is not None
    assert (view.wanted, view.recommended, view.reason) == (None, None, Reason.MANUAL)
    assert view.latency.kept is False


def test_an_idle_tier_goes_to_zero_where_that_is_allowed_and_wakes_by_annotation() -> None:
    fleet = Fleet(scaling={**SCALING, "minReplicas": 0})
    fleet.run(600, QUIET)
    fleet.run(1200, 0.0)
    assert fleet.replicas == 0
    assert fleet.view is not None
    assert fleet.view.reason is Reason.IDLE
    fleet.annotations["tierwright.dev/wake"] = "please"
    fleet.put_tier()
    fleet.run(10, 0.0)
    assert fleet.replicas == 1
    fleet.run(200, QUIET)
    assert fleet.replicas >= 1


def test_a_wake_up_that_was_acted_on_wakes_nobody_after_a_restart() -> None:
    fleet = Fleet(scaling={**SCALING, "minReplicas": 0})
    fleet.run(600, QUIET)
    fleet.run(1200, 0.0)
    fleet.annotations["tierwright.dev/wake"] = "please"
    fleet.put_tier()
    fleet.run(1200, 0.0)
    assert fleet.replicas == 0, "nobody came, so it sleeps again"
    fleet.restart()
    fleet.run(300, 0.0)
    assert set(fleet.history[-30:]) == {0}


def test_the_idlest_pod_can_be_told() -> None:
    fleet = Fleet()
    fleet.run(60, QUIET)
    assert fleet.autoscaler.requests(KEY) == {"pod-1": 5.0}


def test_a_pod_that_is_ready_and_silent_beside_others_keeps_the_tier_from_shrinking() -> None:
    fleet = Fleet()
    fleet.run(600, QUIET)
    fleet.run(900, BUSY)
    before = fleet.replicas
    fleet.silent = {fleet.engines[0].uid}
    fleet.run(900, QUIET)
    assert fleet.replicas == before
    assert fleet.view is not None
    assert fleet.view.reason is Reason.PARTIAL_METRICS
    assert "pod pod-1: no whole page" in fleet.view.message


@pytest.mark.parametrize("every", [20.0, 30.0, 60.0])
def test_a_server_that_reads_each_pod_more_seldom_than_the_loop_decides_is_followed_up_and_down(
    every: float,
) -> None:
    fleet = Fleet(read_every=every)
    fleet.run(1200, QUIET)
    for rate in range(3, 40, 2):
        fleet.run(60, rate)
    fleet.run(300, 40.0)
    peak = fleet.replicas
    assert 4 <= peak <= 8
    assert fleet.view is not None
    assert fleet.view.follows_load
    for rate in range(40, 2, -2):
        fleet.run(60, rate)
    fleet.run(1800, QUIET)
    assert fleet.replicas == 1
    assert falls(fleet.history) == peak - 1, "one at a time, and never to and fro"
    labels = {"namespace": KEY[0], "name": KEY[1]}
    judged = fleet.registry.get_sample_value(names.JUDGED, {**labels, "objective": "All"})
    newest = fleet.registry.get_sample_value(names.NEWEST_SAMPLE, labels)
    assert newest is not None
    assert 0 <= fleet.now - newest < every, "of when the sample was taken"
    came = 1200 * QUIET + 60 * sum(range(3, 40, 2)) + 300 * 40 + 60 * sum(range(40, 2, -2)) + 1800 * QUIET
    assert judged == pytest.approx(came, rel=0.03), "each request is counted once"


def test_a_server_that_has_stopped_reading_pods_is_an_outage() -> None:
    fleet = Fleet(read_every=30.0)
    fleet.run(900, QUIET)
    fleet.run(600, BUSY)
    before = fleet.replicas
    fleet.read_every = 1e9
    fleet.run(900, QUIET)
    assert fleet.replicas == before
    assert fleet.view is not None
    assert (fleet.view.reason, fleet.view.follows_load) == (Reason.METRICS_UNAVAILABLE, False)
    assert "more than 150 s old" in fleet.view.message


def test_a_tier_that_cannot_even_be_looked_at_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    other = copy.deepcopy(fleet.store.tier(*KEY))
    assert other is not None
    other["metadata"] |= {"name": "other", "uid": "u-2"}
    fleet.store.put(INFERENCE_TIER, other)

    def fails(obj: dict[str, Any], **how: Any) -> Any:
        return 1 / 0 if obj["metadata"]["name"] == "other" else parse_tier(obj, **how)

    monkeypatch.setattr("tierwright.control.autoscale_subjects.parse_tier", fails)
    fleet.run(600, BUSY)
    assert fleet.replicas > 1
