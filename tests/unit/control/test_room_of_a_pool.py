"""How many replicas a pool has room for: pods that wait clip it, failed starts are counted on no longer, nothing keeps a tier large."""

import math
from datetime import timedelta

import pytest

from tests.unit.control import pods
from tests.unit.control.pods import NOW, Object
from tierwright.control.pool_room import age, counted, placeable
from tierwright.observe.pods import PodView, pod_view

FULL = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def at(seconds_ago: float) -> str:
    return (NOW - timedelta(seconds=seconds_ago)).isoformat()


def waits(seconds: float, name: str = "waits", reason: str = "Unschedulable") -> PodView:
    """A pod for which the scheduler has found no node for so long."""
    scheduled = pods.condition("PodScheduled", "False", reason, FULL, since=at(seconds))
    return pod_view(pods.pod(name, node="", phase="Pending", containers=[], conditions=[scheduled]))


def serves(name: str = "serves") -> PodView:
    return pod_view(pods.ready_pod(name))


def starts(seconds: float, *containers: Object, name: str = "starts") -> PodView:
    """A pod that was made so long ago, and has a node."""
    return pod_view(pods.pod(name, created=at(seconds), containers=list(containers) or None))


def test_a_pod_that_waits_for_a_minute_says_that_the_pool_is_full() -> None:
    replicas = counted([serves(), serves("other"), waits(61)], NOW)
    assert (replicas.ready, replicas.placed, replicas.without_room, replicas.words) == (2, 2, 1, FULL)
    assert placeable(replicas) == 2


def test_a_pod_that_has_just_begun_to_wait_says_nothing() -> None:
    replicas = counted([serves(), waits(59)], NOW)
    assert (replicas.without_room, placeable(replicas)) == (0, None)
    assert len(replicas.starting) == 1


def test_a_pod_behind_a_scheduling_gate_is_no_want_of_room() -> None:
    assert counted([waits(600, reason="SchedulingGated")], NOW).without_room == 0


def test_a_pod_that_cannot_be_placed_is_not_counted_on() -> None:
    """Nor is it replaced: a further one would wait beside it."""
    assert counted([serves(), waits(4000)], NOW).starting == ()


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_start_that_failed_leaves_the_credit_at_once(reason: str) -> None:
    failed = starts(5, pods.container(state=pods.waiting(reason)))
    assert counted([failed, starts(40, name="other")], NOW).starting == (math.inf, 40.0)


def test_a_container_that_was_restarted_and_runs_is_a_start() -> None:
    again = starts(90, pods.container(restarts=1, state=pods.running()))
    assert counted([again], NOW).starting == (90.0,)


def test_pods_on_their_way_out_are_no_replicas() -> None:
    going = pod_view(pods.pod("going", ready=True, deleting=True))
    ended = pod_view(pods.pod("ended", phase="Failed"))
    replicas = counted([going, ended, serves()], NOW)
    assert (replicas.ready, replicas.placed, replicas.starting) == (1, 1, ())


def test_nodes_that_may_be_read_clip_before_a_pod_has_to_wait() -> None:
    replicas = counted([serves()], NOW)
    assert placeable(replicas, on_nodes=4) == 4
    assert placeable(counted([serves(), waits(61)], NOW), on_nodes=4) == 1
    assert placeable(replicas, on_nodes=0) == 1, "what runs has room, whatever the nodes say"


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_a_time_that_cannot_be_read_is_as_good_as_now(text: str) -> None:
    assert age(text, NOW) == 0.0
    assert age("2026-11-30T11:59:00", NOW) == 60.0
