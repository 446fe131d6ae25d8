"""How many replicas a pool has room for: pods that wait clip it, what runs has room, and failed starts are known as such."""

from datetime import timedelta

import pytest

from tests.unit.control import pods
from tests.unit.control.pods import NOW, Object
from tierwright.control.pool_room import Replicas, age, counted, has_failed_to_start, placeable
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


def starts(container: Object) -> PodView:
    """A pod that has a node and one container in this state."""
    return pod_view(pods.pod("starts", containers=[container]))


def test_a_pod_that_waits_for_a_minute_says_that_the_pool_is_full() -> None:
    replicas = counted([serves(), serves("other"), waits(61)], NOW)
    assert (replicas.placed, replicas.without_room) == (2, 1)
    assert placeable(replicas) == 2


def test_a_pod_that_has_just_begun_to_wait_says_nothing() -> None:
    replicas = counted([serves(), waits(59)], NOW)
    assert (replicas.without_room, placeable(replicas)) == (0, None)


def test_a_pod_behind_a_scheduling_gate_is_no_want_of_room() -> None:
    assert counted([waits(600, reason="SchedulingGated")], NOW).without_room == 0


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_start_that_failed_is_known_at_once(reason: str) -> None:
    assert has_failed_to_start(starts(pods.container(state=pods.waiting(reason))))


def test_a_container_that_was_restarted_and_runs_has_not_failed() -> None:
    assert not has_failed_to_start(starts(pods.container(restarts=1, state=pods.running())))
    assert not has_failed_to_start(serves())


def test_pods_on_their_way_out_are_no_replicas() -> None:
    going = pod_view(pods.pod("going", ready=True, deleting=True))
    ended = pod_view(pods.pod("ended", phase="Failed"))
    replicas = counted([going, ended, serves()], NOW)
    assert replicas == Replicas(placed=1, without_room=0)


def test_nodes_that_may_be_read_clip_before_a_pod_has_to_wait() -> None:
    replicas = counted([serves()], NOW)
    assert placeable(replicas, on_nodes=4) == 4
    assert placeable(counted([serves(), waits(61)], NOW), on_nodes=4) == 1
    assert placeable(replicas, on_nodes=0) == 1, "what runs has room, whatever the nodes say"


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_a_time_that_cannot_be_read_is_as_good_as_now(text: str) -> None:
    assert age(text, NOW) == 0.0
    assert age("2026-11-30T11:59:00", NOW) == 60.0
