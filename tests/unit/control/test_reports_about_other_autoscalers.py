"""Failures that users of other autoscalers reported, from pages and pods to replicas; the policy alone is tried in tests/unit/capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from tests.unit.control.fleet import TICK, Fleet, Object
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


@dataclass
class Saturated(Fleet):
    """A fleet whose engines complete no more than so many requests per second each: the rest waits in them."""

    served: float = 6.0

    def __post_init__(self) -> None:
        """Nothing waits yet."""
        self.waiting: dict[str, float] = {}
        self.rate = 0.0
        super().__post_init__()

    async def tick(self, rate: float) -> None:
        """More wait where more come than can be served."""
        self.rate = rate
        await super().tick(rate)

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        wanted = list(targets)
        by_uid = {each.uid: each for each in self.engines}
        pages = {}
        for each in wanted:
            engine, share = by_uid[each.uid], self.rate / len(wanted)
            if share > self.served:
                # What came beyond its limit has not ended: it is taken out of what the model has counted as served.
                engine.finished -= (share - self.served) * TICK
                self.waiting[each.uid] = self.waiting.get(each.uid, 0.0) + (share - self.served) * TICK
            text = engine.text()
            waits = f'vllm:num_requests_waiting{{model_name="m"}} {self.waiting.get(each.uid, 0.0):.0f}\n'
            lines = [line for line in text.splitlines() if not line.startswith("vllm:num_requests_waiting{")]
            pages[each.uid] = Scraped(self.now, parse("\n".join(lines) + "\n" + waits))
        return pages


@dataclass
class SlowWhenYoung(Fleet):
    """A fleet whose pods miss every objective for two minutes after they are ready: they still compile."""

    YOUNG = 110.0

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        for each in self.engines:
            if each.ready_at <= self.now < each.ready_at + self.YOUNG:
                each.missed = each.finished
        return await super().read(targets)


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


def test_an_engine_that_completes_no_more_than_it_can_hides_no_demand() -> None:
    """dynamo PR#8861: demand is taken from completions, so that a saturated fleet stays at one replica."""
    fleet = Saturated()
    fleet.run(600, QUIET)
    assert fleet.replicas == 1
    fleet.run(120, 30.0)
    assert fleet.replicas >= 3, "one engine completes six a second, and thirty come"


def test_what_young_replicas_measure_poisons_nothing() -> None:
    """dynamo#12430: the first requests of a new replica are slow, so capacity looks small, and ever more are asked for."""
    fleet, usual = (
        SlowWhenYoung(scaling={**Fleet().scaling, "maxReplicas": 20}),
        Fleet(scaling={**Fleet().scaling, "maxReplicas": 20}),
    )
    for each in (fleet, usual):
        each.run(900, QUIET)
        each.run(900, 25.0)
    assert fleet.replicas <= usual.replicas + 1


@dataclass
class AlwaysLate(Fleet):
    """A fleet of which one request in five misses, however few there are."""

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        for each in self.engines:
            each.missed = 0.2 * each.finished
        return await super().read(targets)


def test_a_promise_below_the_floor_of_the_device_is_told_and_not_chased() -> None:
    fleet = AlwaysLate()
    fleet.run(3 * 3600, QUIET)
    view = fleet.view
    assert view is not None
    assert "of requests miss the objectives with any number of replicas, and 5% may" in view.message
    assert view.latency.kept is False
    assert fleet.replicas <= 3, "most replicas are eight, and none of them would help"
