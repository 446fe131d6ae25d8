"""What makes the operator not alive (a restart may help) and not ready (it does not serve yet)."""

import dataclasses

from tierwright.control.health import Vitals, liveness, readiness

WELL = Vitals(primed=True, watching=True, resync_overdue=-10.0, oldest_key_overdue=0.0)


def test_all_is_well() -> None:
    assert liveness(WELL) == readiness(WELL) == []


def test_starting_is_alive_but_not_ready() -> None:
    starting = dataclasses.replace(WELL, primed=False, watching=False, resync_overdue=9999.0)
    assert liveness(starting) == []
    assert readiness(starting) == ["the objects of the cluster are being listed"]


def test_a_missing_crd_is_said_and_needs_no_restart() -> None:
    waiting = dataclasses.replace(WELL, primed=False, waiting_for="waiting for the CRD")
    assert liveness(waiting) == []
    assert readiness(waiting) == ["waiting for the CRD"]


def test_dead_watches_make_it_unready_only() -> None:
    dead = dataclasses.replace(WELL, watching=False)
    assert liveness(dead) == []
    assert readiness(dead) == ["the watches are not running"]


def test_resyncs_that_fail_in_a_row_are_said_and_need_no_restart() -> None:
    assert readiness(dataclasses.replace(WELL, resyncs_failed=1, resync_error="cut")) == []
    refused = dataclasses.replace(WELL, resyncs_failed=2, resync_error="list pods: 403 Forbidden")
    assert readiness(refused) == ["the last 2 resyncs failed: list pods: 403 Forbidden"]
    assert liveness(refused) == []


def test_an_autoscaler_that_looks_no_more_needs_a_restart() -> None:
    stuck = dataclasses.replace(WELL, autoscaler_overdue=121.0)
    assert liveness(stuck) == ["the autoscaler's look at the pods is 121 s late"]


def test_a_stuck_resync_or_queue_needs_a_restart() -> None:
    assert liveness(dataclasses.replace(WELL, resync_overdue=121.0)) == ["the resync is 121 s late"]
    assert liveness(dataclasses.replace(WELL, oldest_key_overdue=601.0)) == [
        "a tier waits for its reconcile for 601 s"
    ]
