"""What the operator keeps of pools: each tier's last wish, shares that are computed once, nothing of tiers that are gone."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.control import pods
from tests.unit.control.pods import NOW, Object
from tests.unit.control.test_room_on_nodes import node, takes
from tierwright.api.tier import InferenceTier
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.pools import Pools
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.resources import POD
from tierwright.observe.store import Store

FAST, STANDARD = ("serving", "fast"), ("serving", "standard")
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def auto(name: str, **spec: Any) -> Object:
    scaling = {"mode": "Auto", "maxReplicas": 10, "objectives": {"timeToFirstToken": "1s"}}
    return pods.tier_object(name, **{"speed": name, "scaling": scaling, **spec})


class Fleet:
    """A store with two tiers of one pool of eight devices: fast has seven of them, standard the last and waits for more."""

    def __init__(self, *, has_gateway: bool = False) -> None:
        self.store = Store(INFERENCE_TIER, label_value, TIER_LABEL)
        self.pools = Pools(self.store, has_gateway=has_gateway)
        self.tiers: dict[str, InferenceTier] = {}
        self.put(auto("fast", traffic={"fallback": {"to": "standard", "when": ["Overloaded"]}}))
        self.put(auto("standard"))

    def put(self, tier: Object) -> None:
        self.store.put(INFERENCE_TIER, tier)
        self.tiers[tier["metadata"]["name"]] = InferenceTier.model_validate(tier)

    def pods(self, tier: str, *found: Object) -> None:
        for number, pod in enumerate(found):
            pod["metadata"] |= {"name": f"{tier}-{number}", "labels": {TIER_LABEL: tier}}
            self.store.put(POD, pod)

    def note(self, name: str, asked: int, wanted: int | None = None) -> None:
        self.pools.note(("serving", name), self.tiers[name], asked, wanted)

    def room(self, name: str, now: datetime = NOW) -> tuple[int | None, int | None]:
        found = self.pools.room(("serving", name), self.tiers[name], now)
        return found.placeable, found.ceiling


@pytest.fixture
def fleet() -> Fleet:
    return crowded(Fleet())


def crowded(fleet: Fleet) -> Fleet:
    fleet.pods("fast", *(pods.ready_pod() for _ in range(8)))
    fleet.pods("standard", pods.unschedulable(FULL))
    fleet.note("fast", asked=8, wanted=12)
    fleet.note("standard", asked=1)
    return fleet


def test_a_minimum_that_waits_lowers_the_others_ceiling(fleet: Fleet) -> None:
    assert fleet.room("fast") == (7, 7)
    assert fleet.room("standard") == (1, None)


def test_the_first_replica_is_asked_for_however_full_the_pool(fleet: Fleet) -> None:
    fleet.put(auto("sleeps", scaling={**auto("any")["spec"]["scaling"], "minReplicas": 0}))
    fleet.note("sleeps", asked=0)
    fleet.pools.nodes = []
    assert fleet.room("sleeps") == (1, None)


def test_a_tier_alone_in_its_pool_is_limited_by_its_own_pods_alone(fleet: Fleet) -> None:
    fleet.pools.forget(STANDARD)
    assert fleet.room("fast") == (None, None)
    fleet.pools.forget(STANDARD)
    fleet.pools.forget(FAST)
    assert fleet.room("fast") == (None, None), "a tier that nobody told of yet"


def test_a_tier_that_moved_to_another_pool_leaves_this_one(fleet: Fleet) -> None:
    hardware = {"accelerator": "nvidia", "count": 1, "nodePool": {"matchLabels": {"pool": "other"}}}
    fleet.put(auto("standard", hardware=hardware))
    fleet.note("standard", asked=1)
    assert fleet.room("fast") == (None, None)
    fleet.put(auto("standard", hardware={"accelerator": "cpu"}))
    fleet.note("standard", asked=1)
    fleet.pools.forget(STANDARD)
    assert fleet.room("fast") == (None, None)


def test_the_shares_of_a_pool_are_computed_once_for_its_tiers_and_anew_later(fleet: Fleet) -> None:
    assert fleet.room("fast") == (7, 7)
    fleet.pods("standard", pods.ready_pod())
    assert fleet.room("fast", NOW + timedelta(seconds=1)) == (7, 7)
    assert fleet.room("fast", NOW + timedelta(seconds=2)) == (None, None)
    assert fleet.room("fast", NOW - timedelta(hours=1)) == (None, None), "a clock that was set back"


def test_nodes_that_may_be_read_count(fleet: Fleet) -> None:
    fleet.pools.nodes = [node(gpus=10)]
    assert fleet.room("fast") == (9, None)
    assert fleet.room("standard")[0] == 1, "its own pod still waits"


def test_pods_that_found_a_node_since_the_nodes_were_counted_are_no_further_room() -> None:
    """Each new pod of a tier counted as a place that is free beyond its pool, until the nodes were counted again."""
    fleet = Fleet()
    fleet.note("fast", asked=1)
    fleet.pools.nodes = [node("a", gpus=8)]
    assert fleet.room("fast") == (8, None)
    fleet.pods("fast", *(takes("a", 1) for _ in range(3)))
    assert fleet.room("fast", NOW + timedelta(seconds=1)) == (8, None)
    assert fleet.room("fast", NOW + timedelta(seconds=2)) == (8, None)


def test_a_tier_that_nobody_told_of_yet_does_not_count_its_pods_as_further_room() -> None:
    fleet = Fleet()
    fleet.pods("fast", *(takes("a", 1) for _ in range(3)))
    fleet.pools.nodes = [node("a", gpus=8)]
    assert fleet.room("fast") == (8, None)


@pytest.mark.parametrize(("has_gateway", "taken_on"), [(True, 3.0), (False, 0.0)])
def test_traffic_falls_back_only_where_a_gateway_sends_it(has_gateway: bool, taken_on: float) -> None:
    fleet = crowded(Fleet(has_gateway=has_gateway))
    found = fleet.pools.room(STANDARD, fleet.tiers["standard"], NOW)
    # fast wants its maximum, ten, and is granted seven beside standard's minimum.
    assert found.taken_on == taken_on


def test_a_fallback_to_a_speed_that_nobody_serves_is_none() -> None:
    fleet = Fleet(has_gateway=True)
    fleet.put(auto("fast", traffic={"fallback": {"to": "slow", "when": ["Overloaded"]}}))
    assert crowded(fleet).room("fast") == (7, 7)
