"""Tiers for tests on a real API server, and what the tests ask of them again and again."""

from collections.abc import Callable
from typing import Any

from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

Object = dict[str, Any]
NAME = "llama-fast"
BEHAVIOUR = "kwok.tierwright.dev/behaviour"
AUTO = {"mode": "Auto", "minReplicas": 2, "maxReplicas": 4, "objectives": {"timeToFirstToken": "500ms"}}
TIER_TARGET = {"apiVersion": "tierwright.dev/v1alpha1", "kind": "InferenceTier", "name": NAME}


def tier(name: str = NAME, **spec: Any) -> Object:
    """A tier of one small pod on the kwok nodes; keywords replace fields of the spec."""
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name},
        "spec": {
            "model": {"name": "meta/llama", "source": "hf://meta-llama/Llama@main"},
            "speed": "fast",
            "engine": {"type": "vllm"},
            "hardware": {
                "accelerator": "nvidia",
                "count": 1,
                "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "fast"}},
            },
            **spec,
        },
    }


def behaving(behaviour: str, **annotations: str) -> Object:
    """A podTemplate whose pods behave like this on kwok's nodes."""
    return {"metadata": {"annotations": {BEHAVIOUR: behaviour, **annotations}}}


def wait_condition(
    k8s: Kubernetes, kind: str, status: str, reason: str = "", *, name: str = NAME, deadline_s: float = 60
) -> Object:
    """Wait until a condition of the present spec has this status, and this reason if one is given; the condition."""

    def look() -> Object | None:
        found = k8s.condition(name, kind)
        assert (found["status"], found["reason"]) == (status, reason or found["reason"]), found
        generation = k8s.must_get("InferenceTier", name)["metadata"]["generation"]
        assert found["observedGeneration"] == generation, (
            f"{found} is about an earlier spec than {generation}"
        )
        return found

    return eventually(look, f"{name} is {kind}={status} {reason}", deadline_s=deadline_s) or {}


def wait_ready(k8s: Kubernetes, name: str = NAME) -> None:
    """Wait until the tier is Ready, and settled."""
    wait_condition(k8s, "Ready", "True", name=name)
    wait_condition(k8s, "Reconciling", "False", "Settled", name=name)


def apply_ready(k8s: Kubernetes, manifest: Object) -> None:
    """Apply a tier and wait until it is Ready and settled."""
    k8s.apply(manifest)
    wait_ready(k8s, manifest["metadata"]["name"])


def replicas(k8s: Kubernetes, name: str = NAME) -> int:
    """The Deployment's replicas."""
    return int(k8s.must_get("Deployment", name)["spec"]["replicas"])


def uid(k8s: Kubernetes, kind: str, name: str = NAME) -> str:
    """The object's uid.

    Raises:
        LookupError: there is none.
    """
    return str(k8s.must_get(kind, name)["metadata"]["uid"])


def owner_uid(k8s: Kubernetes, kind: str, name: str = NAME) -> str:
    """The uid of the object's controller; empty when nothing controls it."""
    references = k8s.must_get(kind, name)["metadata"].get("ownerReferences", [])
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def events(k8s: Kubernetes, reason: str, name: str = NAME) -> list[Object]:
    """Events of this reason on the tier."""
    return [
        event
        for event in k8s.list("Event")
        if event["involvedObject"].get("kind") == "InferenceTier"
        and event["involvedObject"]["name"] == name
        and event["reason"] == reason
    ]


def wait_one_event(k8s: Kubernetes, reason: str, name: str = NAME) -> None:
    """Wait for the Event of this reason; more than one, or a second one soon after, is an error."""
    eventually(lambda: events(k8s, reason, name), f"an Event {reason} on {name}")
    holds_for(lambda: len(events(k8s, reason, name)) == 1, f"one Event {reason} only", seconds=2)


def autoscaler(target: Object, low: int, high: int) -> Object:
    """An HPA with nothing to measure: only its bounds move the replicas."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "users-own"},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": low,
            "maxReplicas": high,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }


def owners(k8s: Kubernetes) -> set[str]:
    """The managers that own the Deployment's replicas."""
    return {
        entry["manager"]
        for entry in k8s.must_get("Deployment", NAME)["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }


def is_scaled_to(k8s: Kubernetes, count: int) -> Callable[[], bool]:
    """Whether Deployment and tier agree on this number of replicas."""

    def look() -> bool:
        status = k8s.must_get("InferenceTier", NAME)["status"]
        return (replicas(k8s), status["replicas"], status["ready"]) == (count, count, f"{count}/{count}")

    return look
