"""Tiers that draw on one pool: a burst takes nobody's minimum, what a person set stays, and a pod that can never run drains nobody."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.control import pods
from tests.unit.control.pods import NOW
from tests.unit.control.test_room_of_a_pool import serves, waits
from tierwright.capacity.decision import Decision, Inputs, Reason
from tierwright.control.pool_budget import (
    NO_LIMIT,
    Pool,
    Seen,
    Share,
    Sharer,
    pool_of,
    sharer_of,
    shares,
    within_share,
)
from tierwright.observe.pods import pod_view

GPU = "nvidia.com/gpu"
POOL = Pool("karpenter.sh/nodepool=h100", GPU)
FAST = Sharer(
    key=("serving", "fast"),
    pool=POOL,
    devices=1,
    minimum=1,
    maximum=20,
    wanted=8,
    asked=8,
    yields=True,
    priority=0,
    price=6.0,
    fallback=None,
    fallback_ratio=1.0,
    placed={"a": 8},
    waits=False,
)
STANDARD = replace(FAST, key=("serving", "standard"), wanted=1, asked=1, price=1.0, placed={}, waits=True)


def shared(*sharers: Sharer, seen: Seen | None = None, nodes: Mapping[str, int] | None = None) -> list[Share]:
    answer, _ = shares(sharers, seen or Seen(), nodes)
    return [answer[each.key] for each in sharers]


def test_nothing_is_shared_while_nothing_waits() -> None:
    assert shared(FAST, replace(STANDARD, waits=False)) == [NO_LIMIT, NO_LIMIT]


def test_a_burst_gives_back_what_another_tiers_minimum_needs_and_no_more() -> None:
    fast, standard = shared(replace(FAST, wanted=12), STANDARD)
    assert (fast.ceiling, fast.placeable) == (7, 7)
    assert (standard.ceiling, standard.placeable) == (None, 1)


def test_what_nobody_claims_stays_where_it_runs() -> None:
    """The burst is over and the hold keeps its replicas: only the one that is needed goes."""
    assert shared(replace(FAST, wanted=2), STANDARD)[0].ceiling == 7


def test_what_nobody_claims_stays_first_with_the_higher_priority() -> None:
    first = replace(FAST, priority=10, placed={"a": 5}, wanted=4, asked=5)
    last = replace(FAST, key=("serving", "last"), placed={"a": 3}, wanted=1, asked=3)
    assert [each.ceiling for each in shared(first, last, STANDARD)] == [None, 2, None]


def test_a_tier_that_gave_a_replica_gives_no_second_while_the_first_ends() -> None:
    _, seen = shares([FAST, STANDARD], Seen())
    given = replace(FAST, placed={"a": 7}, asked=7)
    assert shared(given, STANDARD, seen=seen)[0].ceiling is None
    assert shared(given, STANDARD)[0].ceiling == 6, "the memory is what prevents it"


def test_a_replica_that_no_node_holds_takes_nothing_from_anybody() -> None:
    """Sixteen devices on nodes of eight: both nodes given up would not help."""
    fast = replace(FAST, placed={"a": 8, "b": 8}, wanted=16, asked=16)
    assert shared(fast, replace(STANDARD, devices=16))[0] == Share(None, None, 0.0)


def test_a_small_replica_may_still_find_a_place_where_a_large_one_does_not() -> None:
    large = replace(STANDARD, devices=4)
    small = replace(FAST, placed={"a": 4}, wanted=6)
    assert shared(small, large)[0].placeable is None


def test_higher_priority_takes_what_is_above_a_minimum() -> None:
    first = replace(STANDARD, priority=10, wanted=3, asked=3)
    fast, standard = shared(FAST, first)
    assert (fast.ceiling, standard.placeable) == (5, 3)


def test_equals_keep_what_they_use() -> None:
    more = replace(STANDARD, placed={"b": 2}, wanted=5, asked=5)
    fast, standard = shared(FAST, more)
    assert (fast.ceiling, standard.placeable) == (None, 2)


def test_what_a_person_set_is_taken_from_nobody() -> None:
    manual = replace(FAST, yields=False, minimum=8, maximum=8)
    assert shared(manual, STANDARD)[0].ceiling is None


def test_nodes_that_may_be_read_are_the_budget_before_anybody_waits() -> None:
    calm = replace(STANDARD, waits=False)
    fast, standard = shared(replace(FAST, wanted=20), calm, nodes={"a": 8, "b": 4})
    assert (fast.placeable, fast.ceiling) == (11, None)
    assert standard.placeable == 1
    # What the last plan did not call for is nobody's, and there for whoever calls for more by now.
    assert shared(replace(FAST, wanted=2), calm, nodes={"a": 8, "b": 4})[0].placeable == 11


def test_a_minimum_is_asked_for_however_full_the_pool() -> None:
    assert shared(STANDARD, FAST, nodes={})[0].placeable == STANDARD.minimum


def test_fallback_traffic_counts_for_the_tier_that_takes_it() -> None:
    fast = replace(FAST, wanted=10, maximum=10, waits=True, fallback=STANDARD.key, fallback_ratio=2.0)
    taker = replace(STANDARD, minimum=0, wanted=0, waits=False)
    assert shared(fast, taker)[1].taken_on == 4.0


def decision(replicas: int | None) -> Decision:
    return Decision(replicas, Reason.STEADY, Inputs(8, 0, 0, 8))


def test_a_decision_keeps_to_the_share_and_says_why() -> None:
    kept = within_share(decision(8), 8, 7)
    assert (kept.replicas, kept.reason, kept.unplaced) == (7, Reason.POOL_FULL, 1)


@pytest.mark.parametrize(("replicas", "ceiling"), [(8, None), (6, 7), (None, 7)])
def test_a_decision_within_the_share_and_no_decision_stay_as_they_are(
    replicas: int | None, ceiling: int | None
) -> None:
    assert within_share(decision(replicas), 8, ceiling) == decision(replicas)


def hardware(*expressions: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {
        "accelerator": "nvidia",
        "count": 2,
        "nodePool": {"matchLabels": labels, "matchExpressions": list(expressions)},
    }


def test_selectors_are_equal_whatever_the_order_of_their_parts() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["b", "a"]}
    kind = {"key": "kind", "operator": "Exists"}
    one = pods.tier(hardware=hardware(zone, kind, x="1", y="2"))
    other = pods.tier(hardware=hardware(kind, {**zone, "values": ["a", "b"]}, y="2", x="1"))
    assert pool_of(one) == pool_of(other)
    assert pool_of(one) == (Pool("kind Exists;x=1;y=2;zone In a,b", GPU), 2)


def test_tiers_without_devices_or_that_are_refused_share_nothing() -> None:
    assert pool_of(pods.tier(hardware={"accelerator": "cpu"})) is None
    spans = pods.tier(hardware={**hardware(x="1"), "hosts": 2})
    assert pool_of(spans) is None
    assert sharer_of(("a", "b"), spans, [], wanted=1, asked=1, now=NOW) is None


def test_a_tiers_claim_is_its_pods_its_bounds_and_its_price() -> None:
    auto = pods.tier(
        scaling={
            "mode": "Auto",
            "minReplicas": 1,
            "maxReplicas": 4,
            "priority": 3,
            "objectives": {"timeToFirstToken": "1s"},
        },
        traffic={"priceMultiplier": "6"},
    )
    found = sharer_of(("serving", "x"), auto, [serves(), waits(90)], wanted=9, asked=2, now=NOW)
    assert found is not None
    assert (found.minimum, found.maximum, found.wanted, found.priority, found.price) == (1, 4, 4, 3, 6.0)
    assert (dict(found.placed), found.waits, found.yields) == ({"node-1": 1}, True, True)


def test_a_tier_of_another_mode_claims_what_it_is_asked_for() -> None:
    found = sharer_of(("serving", "x"), pods.tier(), [serves()], wanted=9, asked=2, now=NOW)
    assert found is not None
    assert (found.minimum, found.maximum, found.wanted, found.yields) == (2, 2, 2, False)


def test_a_pod_that_waits_for_something_else_takes_no_device_from_others() -> None:
    scheduled = pods.condition("PodScheduled", "False", "Unschedulable", 'pod has unbound claim "weights"')
    pod = pods.pod("waits", node="", phase="Pending", containers=[], conditions=[scheduled])
    found = sharer_of(("serving", "x"), pods.tier(), [pod_view(pod)], wanted=1, asked=1, now=NOW)
    assert found is not None
    assert not found.waits
