"""A start is what one more replica would take now: a node that is brought for it counts, a wait for others' devices does not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.control.pods import condition, pod
from tierwright.control.observation import LivePod, live_pods
from tierwright.control.start_times import (
    LONGEST_PROVISIONING,
    SeenNode,
    begun,
    measured_starts,
    seen_nodes,
    start_seconds,
)

Object = dict[str, Any]
CREATED = 1_796_036_400.0
HOUR = 3600.0


def text(seconds_after_creation: float) -> str:
    moment = datetime.fromtimestamp(CREATED + seconds_after_creation, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def live(name: str, *, scheduled: float, ready: float | None = None, created: float = 0.0) -> LivePod:
    """A pod that got its node and became ready so many seconds after the first pod's creation."""
    conditions: list[Object] = [condition("PodScheduled", "True", since=text(scheduled))]
    if ready is not None:
        conditions.append(condition("Ready", "True", since=text(ready)))
    found = pod(
        name, ready=ready is not None, created=text(created), node=f"node-of-{name}", conditions=conditions
    )
    (one,) = live_pods([found], CREATED + 10 * HOUR)
    return one


def seconds(one: LivePod, nodes: dict[str, SeenNode]) -> tuple[float, ...]:
    return measured_starts([one], set(), nodes).seconds


def test_a_wait_for_room_on_a_node_that_was_there_is_no_part_of_the_start() -> None:
    one = live("a", scheduled=3 * HOUR, ready=3 * HOUR + 200)
    there = {"node-of-a": SeenNode(CREATED - 60, CREATED + 3 * HOUR)}
    assert seconds(one, there) == (200.0,)


def test_a_node_that_was_brought_for_the_pod_is_part_of_its_start() -> None:
    one = live("a", scheduled=300, ready=500)
    assert seconds(one, seen_nodes({}, [one], CREATED + 500)) == (500.0,)


def test_a_node_that_others_waited_for_as_well_was_brought_for_all_of_them() -> None:
    one = live("a", scheduled=300, ready=500)
    nodes = {"node-of-a": SeenNode(CREATED + 290, CREATED + 300)}
    assert seconds(one, nodes) == (500.0,)


def test_of_a_wait_that_nothing_explains_no_more_counts_than_a_node_takes() -> None:
    one = live("a", scheduled=5 * HOUR, ready=5 * HOUR + 100)
    assert seconds(one, {}) == (LONGEST_PROVISIONING + 100,)


def test_a_scheduler_that_is_slow_is_part_of_the_start() -> None:
    one = live("a", scheduled=59, ready=159)
    assert seconds(one, {"node-of-a": SeenNode(0.0, CREATED)}) == (159.0,)


def test_a_pod_that_tells_no_place_counts_from_its_creation() -> None:
    told = [condition("Ready", "True", since=text(90)), condition("PodScheduled", "Unknown")]
    (one,) = live_pods([pod("a", ready=True, conditions=told)], CREATED)
    assert one.scheduled is None
    assert begun(one, {}) == CREATED


def test_nodes_are_known_from_their_first_pod_on_and_forgotten_a_day_after_the_last() -> None:
    first, second = live("a", scheduled=10), live("a", scheduled=500, created=400)
    nodes = seen_nodes({}, [first], CREATED + 20)
    nodes = seen_nodes(nodes, [second], CREATED + 600)
    assert nodes == {"node-of-a": SeenNode(CREATED + 10, CREATED + 600)}
    (waiting,) = live_pods([pod("b", node="", phase="Pending")], CREATED)
    assert seen_nodes(nodes, [waiting], CREATED + 600 + 23 * HOUR) == nodes
    assert seen_nodes(nodes, [], CREATED + 600 + 24 * HOUR) == {}


@pytest.mark.parametrize(
    ("total", "scheduling", "found"),
    [(None, None, None), (200, None, 200.0), (200, 5, 200.0), (4000, 3700, 300.0)],
)
def test_a_start_that_a_status_remembers_leaves_the_wait_out(
    total: float | None, scheduling: float | None, found: float | None
) -> None:
    assert start_seconds(total, scheduling) == found
