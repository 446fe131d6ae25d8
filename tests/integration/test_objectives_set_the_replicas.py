"""On a real API server: pods' pages set the replicas, the status tells, silence holds, and a settled tier costs no write."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.live import (
    NAME,
    Object,
    events,
    owners,
    replicas,
    tier,
    uid,
    wait_condition,
    wait_ready,
)
from tests.support.activity import wait_resyncs, writes, writes_at_rest
from tests.support.kubernetes import Kubernetes
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually, holds_for
from tierwright.capacity.state import load

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
    "scaleDown": {"stabilization": "10m"},
}


def scaled(**scaling: Any) -> Object:
    """A tier that follows its load."""
    return tier(scaling={**SCALING, **scaling})


def status(k8s: Kubernetes) -> Object:
    """The tier's status."""
    found: Object = k8s.must_get("InferenceTier", NAME)["status"]
    return found


def test_a_load_that_grows_gets_replicas_and_an_outage_takes_none(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 3.0
        k8s.apply(scaled())
        wait_condition(k8s, "ScalingActive", "True")
        assert replicas(k8s) == 1
        eventually(lambda: "attained" in (status(k8s).get("latency") or {}), "attainment is told", 120)
        assert status(k8s)["latency"]["timeToFirstTokenP95"].endswith("ms")
        assert status(k8s)["recommendedReplicas"] == 1
        wait_condition(k8s, "ObjectivesMet", "True", "ObjectivesKept")

        engines.rates[NAME] = 40.0
        eventually(lambda: replicas(k8s) >= 3, "replicas for the load", 120)
        assert owners(k8s) == {"tierwright-scaler"}
        eventually(lambda: events(k8s, "DemandGrew"), "the Event of it")
        eventually(lambda: status(k8s)["readyReplicas"] == replicas(k8s), "they are ready", 60)
        page = operator.get("/metrics")
        series = f'name="{NAME}",namespace="{k8s.namespace}"'
        assert f"tierwright_tier_recommended_replicas{{{series}}}" in page

        wait_condition(k8s, "ScalingActive", "True")
        before = replicas(k8s)
        engines.silent = True
        eventually(
            lambda: "status 503" in k8s.condition(NAME, "ScalingActive")["message"], "the outage is told"
        )
        wait_condition(k8s, "ScalingActive", "False", "MetricsUnavailable")
        engines.rates[NAME] = 0.0
        holds_for(lambda: replicas(k8s) == before, "an outage takes no replica", seconds=15)
        eventually(lambda: events(k8s, "MetricsUnavailable"), "the Event of it")
        engines.silent = False
        wait_condition(k8s, "ScalingActive", "True")
        assert replicas(k8s) == before


def test_what_was_learned_lies_in_an_object_that_goes_with_the_tier(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    name = f"{NAME}-autoscaler"
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 3.0
        k8s.apply(scaled())
        eventually(lambda: k8s.get("ConfigMap", name) is not None, "the state is written", 60)
        kept = k8s.must_get("ConfigMap", name)
        assert kept["metadata"]["ownerReferences"][0]["uid"] == uid(k8s, "InferenceTier")
        assert load(kept["data"]["state"]) is not None
    k8s.delete("InferenceTier", NAME)
    eventually(lambda: k8s.get("ConfigMap", name) is None, "it is collected")


def test_an_object_of_that_name_that_is_somebody_elses_is_left_alone(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    name = f"{NAME}-autoscaler"
    k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"mine": "1"}})
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 3.0
        k8s.apply(scaled())
        wait_condition(k8s, "ScalingActive", "True")
        holds_for(
            lambda: k8s.must_get("ConfigMap", name)["data"] == {"mine": "1"}, "it stays as it was", seconds=12
        )


def test_settled_tier_that_is_measured_writes_nothing_over_ten_resyncs(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    with played_engines(k8s):
        k8s.apply(scaled())
        wait_condition(k8s, "ScalingActive", "True", "AtMinimum")
        wait_ready(k8s)
        before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
        wait_resyncs(operator, 10)
        assert writes(cluster.audit_log, operator.user, k8s.namespace)[len(before) :] == []


def test_the_idlest_pod_is_marked_before_a_replica_goes(k8s: Kubernetes, operator: "OperatorProcess") -> None:
    cost = "controller.kubernetes.io/pod-deletion-cost"
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 3.0
        k8s.apply(tier(replicas=3, scaling={"objectives": SCALING["objectives"]}))
        wait_ready(k8s)
        eventually(lambda: status(k8s).get("latency"), "the pods are measured", 60)
        k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 2}})
        eventually(lambda: len(k8s.list("Pod")) == 2, "one pod goes")
    assert all(cost not in (pod["metadata"].get("annotations") or {}) for pod in k8s.list("Pod"))


def test_a_recommendation_stands_in_the_status_and_moves_nothing(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    with played_engines(k8s) as engines:
        engines.rates[NAME] = 40.0
        k8s.apply(scaled(mode="Recommend"))
        eventually(lambda: (status(k8s).get("recommendedReplicas") or 0) >= 3, "more is recommended", 120)
        assert replicas(k8s) == 1
        told = wait_condition(k8s, "ScalingActive", "False", "Recommending")
        assert "recommended" in told["message"]
