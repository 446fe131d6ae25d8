"""Failures that users of other autoscalers reported, from pages and pods to replicas; the policy alone is tried in tests/unit/capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from tests.unit.control.fleet import Fleet, Object
from tests.unit.control.pods import condition
from tests.unit.control.test_autoscaler_follows_the_load import BUSY, QUIET
from tierwright.api.conditions import Reason
from tierwright.observe.metrics import parse
from tierwright.observe.readings import Scraped, Target

HOLD = 300
"""Seconds for which fewer must be enough."""
FULL = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."


@dataclass
class Crowded(Fleet):
    """A fleet in a pool that has room for so many pods; the others wait."""

    room: int = 3

    def _pod(self, engine: object) -> Object:
        pod = super()._pod(engine)  # type: ignore[arg-type]
        oldest = sorted(self.engines, key=lambda each: each.created)[: self.room]
        if any(each.uid == pod["metadata"]["uid"] for each in oldest):
            return pod
        since = pod["metadata"]["creationTimestamp"]
        waits = condition("PodScheduled", "False", "Unschedulable", FULL, since=since)
        return {**pod, "spec": {}, "status": {"phase": "Pending", "conditions": [waits]}}

    def _put_pods(self) -> None:
        for each in self.engines:
            if self._pod(each)["spec"] == {}:
                each.ready_at = self.now + 1  # it never becomes ready as long as it waits
        super()._put_pods()


@dataclass
class Mute(Fleet):
    """A fleet whose pages come, and after a while hold nothing that was asked for."""

    empty: bool = False

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        found = await super().read(targets)
        if not self.empty:
            return found
        return {uid: Scraped(self.now, parse("# HELP other_things\n")) for uid in found}


def grown(fleet: Fleet) -> int:
    """After a quiet and a busy time: the replicas that it has then."""
    fleet.run(600, QUIET)
    fleet.run(600, BUSY)
    assert fleet.replicas > 2
    return fleet.replicas


def test_without_any_request_the_tier_goes_back_to_its_minimum() -> None:
    """aibrix#593: the metric is at zero and seven pods remain."""
    fleet = Fleet()
    grown(fleet)
    fleet.run(HOLD + 60 * 10, 0.0)
    assert fleet.replicas == 1


@pytest.mark.parametrize("lost", [False, True], ids=["state kept", "state lost"])
def test_scale_down_after_a_change_of_leader_waits_for_no_request(lost: bool) -> None:
    """kubeai#383: a new leader shrinks nothing before the first request comes, and none comes at night."""
    fleet = Fleet()
    before = grown(fleet)
    fleet.run(20, 0.0)
    if lost:
        fleet.states.kept.clear()
    fleet.restart()
    fleet.run(HOLD - 20, 0.0)
    assert fleet.replicas == before, "a full window has to be seen"
    fleet.run(HOLD + 60 * 10, 0.0)
    assert fleet.replicas == 1


def test_what_was_the_leader_once_does_not_wake_a_tier_that_sleeps() -> None:
    """kubeai#67: three controllers, of which one was the leader, flap between nothing and one."""
    fleet = Fleet(scaling={**Fleet().scaling, "minReplicas": 0})
    fleet.run(60, QUIET)
    assert fleet.view is not None
    assert fleet.view.wanted == 1
    fleet.now += 3600  # it stands still, and another one lets the tier sleep meanwhile
    fleet.replicas = 0
    fleet._apply()
    assert fleet.replicas == 0
    fleet.run(600, 0.0)
    assert set(fleet.history[-60:]) == {0}


def test_a_replica_that_finds_no_node_keeps_no_other_from_going() -> None:
    """dynamo#14251: a requested worker cannot start, demand falls, and the scale-down waits for the worker."""
    fleet = Crowded()
    fleet.run(600, QUIET)
    fleet.run(600, BUSY)
    assert fleet.replicas > fleet.room
    assert fleet.view is not None
    assert fleet.view.reason == Reason.POOL_FULL
    stuck = fleet.replicas
    fleet.run(600, BUSY)
    assert fleet.replicas == stuck, "nothing more is asked for beside replicas that wait"
    fleet.run(HOLD + 60 * 12, QUIET)
    assert fleet.replicas == 1


def test_pages_that_hold_nothing_are_told_and_shrink_nothing() -> None:
    """llm-d PR#1981: an empty result counts as no signal, and no signal as no demand."""
    fleet = Mute()
    before = grown(fleet)
    fleet.empty = True
    fleet.run(HOLD * 3, 0.0)
    assert fleet.replicas == before
    view = fleet.view
    assert view is not None
    assert (view.reason, view.follows_load) == (Reason.METRICS_UNAVAILABLE, False)
    assert "does not tell" in view.message


def test_an_outage_of_the_metrics_never_goes_below_the_minimum() -> None:
    """dynamo PR#14575: an outage drives the replicas below the minimum."""
    fleet = Fleet(scaling={**Fleet().scaling, "minReplicas": 3})
    fleet.run(60, QUIET)
    assert fleet.replicas == 3
    fleet.silent = {each.uid for each in fleet.engines}
    fleet.run(HOLD * 3, 0.0)
    fleet.restart()
    fleet.run(HOLD * 3, 0.0)
    assert min(fleet.history[-180:]) == 3
