"""Two tiers on a pool that is full: the burst of one gives back what the other's minimum needs, no more, and says why."""

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.live import Object, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually, holds_for

if TYPE_CHECKING:
    from tests.integration.conftest import NewPool
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

DEVICES: Final = 4
BURST: Final = 200.0
"""Requests per second that call for more replicas than the pool holds."""


def auto(name: str, pool: str, **fields: Any) -> Object:
    """A tier of one device a replica."""
    scaling = {
        "mode": "Auto",
        "minReplicas": 1,
        "maxReplicas": DEVICES + 2,
        "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
        "coldStart": "5s",
    }
    hardware = {
        "accelerator": "nvidia",
        "count": 1,
        "nodePool": {"matchLabels": {"karpenter.sh/nodepool": pool}},
    }
    return tier(name, speed=name, scaling=scaling, hardware=hardware, **fields)


def placed(k8s: Kubernetes, name: str) -> int:
    """Replicas of the tier that have a node."""
    return sum(
        "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        for pod in k8s.list("Pod", f"tierwright.dev/tier={name}")
    )


def test_a_burst_gives_back_what_another_tiers_minimum_needs(
    k8s: Kubernetes, operator: "OperatorProcess", new_pool: "NewPool", pool_name: str
) -> None:
    new_pool(pool_name, DEVICES)
    with played_engines(k8s) as engines:
        engines.rates["burst"] = BURST
        k8s.apply(auto("burst", pool_name, replicas=DEVICES))
        eventually(lambda: placed(k8s, "burst") == DEVICES, "the burst has the whole pool")
        k8s.apply(auto("calm", pool_name))
        # The replicas beyond the pool wait for a minute before they say that it is full.
        told = wait_condition(k8s, "ScalingActive", "True", "PoolFull", name="burst", deadline_s=150)
        assert "no room" in told["message"]
        eventually(lambda: placed(k8s, "calm") == 1, "the other tier has its minimum", 120)
        wait_ready(k8s, "calm")
        # The burst may ask for more again, and waits for it; what both have stays theirs.
        holds_for(
            lambda: (placed(k8s, "burst"), placed(k8s, "calm")) == (DEVICES - 1, 1), "one was given back", 10
        )
