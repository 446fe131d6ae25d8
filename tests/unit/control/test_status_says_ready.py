"""Ready, Reconciling and Stalled follow live pods, the bounds of the tier, and what a person asked for."""

import pytest

from tests.unit.control.pods import (
    NOW,
    container,
    deployment,
    get,
    pod,
    ready_pod,
    running,
    snapshot,
    status_of,
    terminated,
    tier,
)
from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.hardware import NodePool
from tierwright.api.status import StartupStatus, TierStatus
from tierwright.api.tier import InferenceTier
from tierwright.control.status.compute import compute_status, node_pool_text
from tierwright.control.status.readiness import required_ready
from tierwright.control.status.transitions import transitions
from tierwright.observe.snapshot import CompileView, Facts, Finding, Problem, ScaleView, Snapshot, Stage

AUTO = {"mode": "Auto", "maxReplicas": 6, "objectives": {"timeToFirstToken": "500ms"}}


def summary(view: Snapshot) -> dict[str, str]:
    status = status_of(view)
    kinds = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)
    return {kind: f"{get(status, kind).status}/{get(status, kind).reason}" for kind in kinds}


@pytest.mark.parametrize(
    ("spec", "wanted", "needed"),
    [
        ({}, 1, 1),
        ({}, 2, 1),
        ({}, 5, 4),
        ({"rollout": {"maxUnavailable": "0"}}, 5, 5),
        ({"rollout": {"maxUnavailable": "25%"}}, 8, 6),
        ({"rollout": {"maxUnavailable": "25%"}}, 3, 3),
        ({"rollout": {"maxUnavailable": "100%"}}, 3, 1),
        ({"scaling": {"mode": "Manual", "minReplicas": 2}}, 5, 1),
        ({"scaling": {"mode": "Manual", "minReplicas": 4}}, 5, 3),
        ({"scaling": {**AUTO, "minReplicas": 3}}, 5, 2),
        ({"scaling": {**AUTO, "minReplicas": 3}}, 2, 1),
        ({"scaling": AUTO}, 5, 1),
        ({"scaling": {**AUTO, "minReplicas": 0}}, 3, 1),
    ],
)
def test_ready_needs_one_pod_and_the_minimum_less_what_may_be_missing(
    spec: dict[str, object], wanted: int, needed: int
) -> None:
    assert required_ready(tier(**spec), wanted) == needed


def test_ready_of_an_unreadable_tier_needs_all() -> None:
    assert (required_ready(None, 3), required_ready(None, 0)) == (3, 1)


def test_all_replicas_ready_is_settled() -> None:
    assert summary(snapshot(ready_pod("a"), ready_pod("b"))) == {
        "Ready": "True/Serving",
        "Reconciling": "False/Settled",
        "Stalled": "False/Settled",
    }


def test_rollout_is_reconciling_while_old_pods_serve() -> None:
    view = snapshot(ready_pod("a"), ready_pod("b"), workload=deployment(2, updated=1))
    assert summary(view) == {
        "Ready": "True/Serving",
        "Reconciling": "True/RollingOut",
        "Stalled": "False/Progressing",
    }


def test_spec_that_the_deployment_controller_has_not_seen_is_reconciling() -> None:
    unseen = deployment(2)
    unseen["metadata"]["generation"] = 2
    view = snapshot(ready_pod("a"), ready_pod("b"), workload=unseen)
    assert summary(view)["Reconciling"] == "True/RollingOut"


def test_first_pods_of_a_new_tier_are_no_rollout() -> None:
    new = deployment(2, updated=0)
    new["status"]["replicas"] = 0
    assert summary(snapshot(workload=new))["Reconciling"] == "True/Progressing"


def test_too_few_ready_pods_are_counted() -> None:
    view = snapshot(ready_pod("a"), pod("b"), pod("c"), pod("d"), of=tier(replicas=4))
    ready = get(status_of(view), ConditionType.READY)
    assert (ready.status, ready.reason) == ("False", Reason.TOO_FEW_READY)
    assert "1 of 4 replicas are ready, at least 3 are needed; pod b runs" in ready.message


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (snapshot(), "pods are being created"),
        (snapshot(waiting_for=("Deployment x",)), "waits for the end of Deployment x"),
        (
            snapshot(pod(containers=[], init=[container("fetch-weights", state=running())])),
            "is being initialised",
        ),
        (snapshot(pod(containers=[])), "is being set up on its node"),
    ],
    ids=["none yet", "a tier of the same name is still being deleted", "downloads", "pulls or mounts"],
)
def test_starting_says_how_far_the_pods_came(view: Snapshot, words: str) -> None:
    ready = get(status_of(view), ConditionType.READY)
    assert ready.reason == Reason.STARTING
    assert words in ready.message


def test_nothing_wanted_is_ready() -> None:
    assert summary(snapshot(wanted=0))["Ready"] == "True/ScaledToZero"


def test_suspended_tier_says_so() -> None:
    scale = ScaleView(0, Reason.SUSPENDED, "spec.suspend", suspended=True)
    status = status_of(snapshot(wanted=0, scale=scale))
    assert get(status, ConditionType.READY).reason == Reason.SUSPENDED
    assert get(status, ConditionType.SCALING_ACTIVE).reason == Reason.SUSPENDED
    assert status.ready == "0/0"


def test_pods_being_deleted_or_ended_are_no_replicas() -> None:
    ended = pod("c", phase="Failed", containers=[])
    leaving = pod("b", ready=True, deleting=True)
    status = status_of(snapshot(ready_pod("a"), leaving, ended))
    assert (status.replicas, status.ready_replicas, status.ready) == (1, 1, "1/2")


def test_invalid_spec_is_stalled_and_keeps_what_still_runs_in_sight() -> None:
    before = status_of(snapshot(ready_pod("a"), ready_pod("b")))
    refused = snapshot(
        ready_pod("a"),
        ready_pod("b"),
        stage=Stage.REFUSED,
        refusal=Finding(Reason.INVALID_SPEC, "spec.speed: is missing; spec.replicas: -1 is too small"),
        tier=None,
        facts=None,
        scale=None,
    )
    assert summary(refused) == {
        "Ready": "False/InvalidSpec",
        "Reconciling": "False/InvalidSpec",
        "Stalled": "True/InvalidSpec",
    }
    after = status_of(refused, before)
    assert "spec.replicas: -1 is too small" in get(after, ConditionType.READY).message
    assert (after.ready_replicas, after.engine, after.endpoint) == (2, before.engine, before.endpoint)
    assert after.node_pool == before.node_pool


def test_refused_child_stalls_a_tier_that_serves_without_hiding_that_it_serves() -> None:
    view = snapshot(
        ready_pod("a"),
        ready_pod("b"),
        problems=(Problem(Reason.CONFLICT, "Service x is not touched: it is not this tier's"),),
    )
    assert summary(view) == {
        "Ready": "True/Serving",
        "Reconciling": "False/Conflict",
        "Stalled": "True/Conflict",
    }


def test_error_that_passes_is_reconciling() -> None:
    view = snapshot(
        ready_pod("a"), ready_pod("b"), problems=(Problem(Reason.API_UNAVAILABLE, "503", passing=True),)
    )
    assert summary(view)["Reconciling"] == "True/APIUnavailable"


def test_child_that_waits_for_an_older_one_is_reconciling() -> None:
    view = snapshot(ready_pod("a"), ready_pod("b"), waiting_for=("Service x (it is being deleted)",))
    assert summary(view)["Reconciling"] == "True/Applying"


def test_paused_tier_still_tells_whether_its_pods_serve() -> None:
    view = snapshot(ready_pod("a"), ready_pod("b"), stage=Stage.PAUSED, scale=None)
    assert summary(view) == {
        "Ready": "True/Serving",
        "Reconciling": "False/Paused",
        "Stalled": "False/Paused",
    }
    assert get(status_of(view), ConditionType.SCALING_ACTIVE).reason == Reason.PAUSED


def test_tier_paused_before_its_first_pod_is_not_ready() -> None:
    view = Snapshot(generation=1, stage=Stage.PAUSED, selector="s", tier=tier())
    assert summary(view)["Ready"] == "False/Paused"


def test_tier_being_deleted_says_so() -> None:
    view = snapshot(ready_pod("a"), stage=Stage.DELETING, scale=None)
    assert summary(view) == {
        "Ready": "False/Deleting",
        "Reconciling": "True/Deleting",
        "Stalled": "False/Deleting",
    }
    assert get(status_of(view), ConditionType.SCALING_ACTIVE).reason == Reason.DELETING


def test_time_of_a_condition_moves_with_its_status_alone() -> None:
    starting = status_of(snapshot(pod("a"), pod("b")))
    later = NOW.replace(hour=13)
    crashed = pod("a", containers=[container(restarts=1, state=running(), last_state=terminated(1))])
    still = compute_status(snapshot(crashed, pod("b")), starting, later)
    serving = compute_status(snapshot(ready_pod("a"), ready_pod("b")), still, later)
    times = [get(each, ConditionType.READY).last_transition_time for each in (starting, still, serving)]
    assert times == ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z", "2026-11-30T13:00:00Z"]


def test_every_condition_carries_the_generation_that_it_is_about() -> None:
    status = status_of(snapshot(ready_pod(), compile=CompileView("llama-fast-compile-1", None, None)))
    assert status.observed_generation == 3
    assert {each.observed_generation for each in status.conditions} == {3}
    assert {each.type for each in status.conditions} == set(ConditionType)


def test_objectives_without_metrics_are_unknown() -> None:
    with_objectives = status_of(snapshot(of=tier(scaling=AUTO)))
    met = get(with_objectives, ConditionType.OBJECTIVES_MET)
    assert (met.status, met.reason) == ("Unknown", Reason.NO_METRICS)
    assert met.message == "too few requests were measured yet to tell"
    without = get(status_of(snapshot()), ConditionType.OBJECTIVES_MET)
    assert (without.status, without.reason) == ("Unknown", Reason.NO_METRICS)


def test_long_words_of_others_are_cut() -> None:
    facts = Facts("e", "i", None, tuple("w" * 3000 for _ in range(40)))
    view = snapshot(facts=facts, refusal=Finding(Reason.INVALID_SPEC, "x" * 9000), stage=Stage.REFUSED)
    status = status_of(view)
    assert max(len(each.message) for each in status.conditions) == 2000
    assert status.warnings
    assert (len(status.warnings), len(status.warnings[0])) == (32, 1024)


def test_a_status_without_warnings_has_no_empty_line_for_them() -> None:
    assert "warnings" not in status_of(snapshot(facts=Facts("e", "i", None, ()))).to_wire()


@pytest.mark.parametrize(
    ("pool", "text"),
    [
        ({}, None),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            "zone In (a,b)",
        ),
        ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, "gpu Exists"),
        ({"matchLabels": {"k" * 300: "v" * 63, "l" * 300: "v"}}, f"{'k' * 300}={'v' * 63},{'l' * 146}…"),
    ],
)
def test_node_pool_fits_on_one_line(pool: dict[str, object], text: str | None) -> None:
    assert node_pool_text(NodePool.model_validate(pool)) == text


# Where the time went


def started(name: str, created: str, ready: str) -> dict[str, object]:
    times = {"PodScheduled": "2026-11-30T11:00:04Z", "Initialized": "2026-11-30T11:01:00Z", "Ready": ready}
    return pod(
        name,
        ready=True,
        created=created,
        conditions=[
            {"type": kind, "status": "True", "lastTransitionTime": moment} for kind, moment in times.items()
        ],
        containers=[container(ready=True, state=running("2026-11-30T11:02:40Z"))],
    )


MEASURED = StartupStatus(
    pod="a",
    scheduling_seconds=4,
    initialization_seconds=56,
    pulling_seconds=100,
    loading_seconds=257,
    total_seconds=417,
)


def test_start_is_measured_in_phases() -> None:
    view = snapshot(started("a", "2026-11-30T11:00:00Z", "2026-11-30T11:06:57Z"))
    assert status_of(view).startup == MEASURED


def test_readiness_that_comes_and_goes_is_no_new_start() -> None:
    before = TierStatus(startup=MEASURED)
    flapped = snapshot(started("a", "2026-11-30T11:00:00Z", "2026-11-30T11:50:00Z"))
    assert status_of(flapped, before).startup == MEASURED
    assert status_of(snapshot(pod("a")), before).startup == MEASURED


def test_newest_pod_that_became_ready_is_measured() -> None:
    view = snapshot(
        started("z", "2026-11-30T10:00:00Z", "2026-11-30T11:06:57Z"),
        started("b", "2026-11-30T11:00:00Z", "2026-11-30T11:06:57Z"),
        pod("c", created="2026-11-30T11:30:00Z"),
    )
    measured = status_of(view, TierStatus(startup=MEASURED)).startup
    assert measured is not None
    assert measured.pod == "b"


def test_pod_that_restarted_tells_nothing_about_a_start() -> None:
    view = snapshot(pod("a", ready=True, containers=[container(ready=True, restarts=1, state=running())]))
    assert status_of(view).startup is None


def test_times_that_cannot_be_read_are_left_out() -> None:
    view = snapshot(pod("a", ready=True, created="soon", containers=[container(ready=True)]))
    measured = status_of(view).startup
    assert measured is not None
    assert (measured.total_seconds, measured.pulling_seconds) == (None, None)


# Events


def events(
    before: Snapshot | None, after: Snapshot, of: InferenceTier | None = None
) -> list[tuple[str, str]]:
    first = status_of(before) if before is not None else TierStatus()
    return [(each.type, each.reason) for each in transitions(first, status_of(after, first))]


SERVING = snapshot(ready_pod("a"), ready_pod("b"))
CRASHED = snapshot(
    pod("a", containers=[container(restarts=1, state=running(), last_state=terminated(1))]), pod("b")
)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, snapshot(), [("Normal", "Starting")]),
        (snapshot(), SERVING, [("Normal", "Serving")]),
        (SERVING, SERVING, []),
        (SERVING, CRASHED, [("Warning", "EngineCrashed")]),
        (CRASHED, CRASHED, []),
        (CRASHED, SERVING, [("Normal", "Serving")]),
        (SERVING, snapshot(pod("a"), pod("b")), [("Normal", "Starting")]),
        (
            snapshot(*(ready_pod(each) for each in "abcd"), of=tier(replicas=4)),
            snapshot(ready_pod("a"), pod("b"), of=tier(replicas=4)),
            [("Warning", "TooFewReady")],
        ),
        (
            SERVING,
            snapshot(ready_pod("a"), ready_pod("b"), workload=deployment(2, updated=0)),
            [("Normal", "RollingOut")],
        ),
        (SERVING, snapshot(ready_pod("a"), ready_pod("b"), stage=Stage.PAUSED), [("Normal", "Paused")]),
        (SERVING, snapshot(wanted=0), [("Normal", "ScaledToZero")]),
        (SERVING, snapshot(ready_pod("a"), stage=Stage.DELETING), [("Normal", "Deleting")]),
        (
            SERVING,
            snapshot(
                ready_pod("a"),
                ready_pod("b"),
                scale=ScaleView(None, Reason.CONFLICT, "HorizontalPodAutoscaler h"),
            ),
            [("Warning", "Conflict")],
        ),
    ],
)
def test_events_are_written_on_transitions_only(
    before: Snapshot | None, after: Snapshot, expected: list[tuple[str, str]]
) -> None:
    assert events(before, after) == expected


def test_cause_that_becomes_terminal_is_not_told_twice() -> None:
    late = deployment(
        2, conditions=[{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
    )
    assert events(CRASHED, snapshot(*[_crashed()], workload=late)) == []


def _crashed() -> dict[str, object]:
    return pod("a", containers=[container(restarts=1, state=running(), last_state=terminated(1))])
