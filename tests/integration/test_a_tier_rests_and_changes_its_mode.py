"""A tier that nobody asks goes to zero and comes back; each mode takes over from the other; `kubectl describe` tells why."""

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.live import NAME, Object, events, replicas, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually, holds_for

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

SCALING = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 4,
    "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
    "coldStart": "5s",
    "scaleDown": {"stabilization": "15s"},
}


def scaled(*, replicas: int = 1, **scaling: Any) -> Object:
    """A tier with objectives."""
    return tier(replicas=replicas, scaling={**SCALING, **scaling})


def test_a_tier_that_nobody_asks_goes_to_zero_and_comes_back_with_its_load(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 2.0
        k8s.apply(scaled(minReplicas=0))
        wait_ready(k8s)
        wait_condition(k8s, "ScalingActive", "True")
        engines.rates[NAME] = 0.0
        eventually(lambda: replicas(k8s) == 0, "no request comes, so no replica is kept", 120)
        wait_condition(k8s, "Ready", "True", "ScaledToZero")
        assert wait_condition(k8s, "ScalingActive", "True", "Idle", deadline_s=120)
        assert "no request comes" in events(k8s, "Idle")[0]["message"]
        holds_for(lambda: replicas(k8s) == 0, "it sleeps", seconds=5)
        engines.rates[NAME] = 2.0
        k8s.patch("InferenceTier", NAME, {"metadata": {"annotations": {"tierwright.dev/wake": "now"}}})
        eventually(lambda: replicas(k8s) == 1, "it is woken", 30)
        wait_ready(k8s)
        eventually(lambda: events(k8s, "Woken"), "the Event of it")
        holds_for(lambda: replicas(k8s) >= 1, "its requests keep it up", seconds=25)


def test_each_mode_takes_over_from_the_other_and_says_who_decides(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 25.0
        k8s.apply(scaled(mode="Recommend"))
        eventually(
            lambda: (k8s.must_get("InferenceTier", NAME)["status"].get("recommendedReplicas") or 0) >= 3,
            "more is recommended",
            120,
        )
        assert replicas(k8s) == 1
        assert "recommended, " in k8s.condition(NAME, "ScalingActive")["message"]
        k8s.apply(scaled())
        eventually(lambda: replicas(k8s) >= 3, "mode Auto acts on it", 120)
        wait_condition(k8s, "ScalingActive", "True")
        kubectl = [str(cluster.kubectl), "--kubeconfig", str(k8s.kubeconfig), "-n", k8s.namespace]
        described = subprocess.run(
            [*kubectl, "describe", "inferencetier", NAME], check=True, capture_output=True, text=True
        ).stdout
        for words in (
            "Recommended Replicas:",
            "of the limit",
            "demand=",
            "DemandGrew",
            "asked for instead of",
        ):
            assert words in described
        before = replicas(k8s)
        k8s.apply(scaled(mode="Manual", replicas=before))
        told = wait_condition(k8s, "ScalingActive", "False", "Manual")
        assert told["message"] == "spec.replicas decides"
        engines.rates[NAME] = 0.0
        holds_for(lambda: replicas(k8s) == before, "nobody but a person takes a replica away", seconds=25)
        assert "recommendedReplicas" not in k8s.must_get("InferenceTier", NAME)["status"]
