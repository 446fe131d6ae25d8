"""Names as long as the API takes them: every child fits, nothing collides, and all goes again."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.live import Object, apply_ready, tier, wait_ready
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

LIMIT = 63
LETTERS = "l" * 253
TWIN = "l" * 252 + "m"
"""Differs from the first in its last letter alone, far behind what fits into a label."""
DOTTED = "3." + "x" * 249 + ".y"
LONGEST_MODEL = "meta/" + "m" * 248
LONGEST_SPEED = "f" * 32
KINDS = (
    "ServiceAccount",
    "PersistentVolumeClaim",
    "NetworkPolicy",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
)


def long_tier(name: str, speed: str) -> Object:
    return tier(
        name,
        model={"name": LONGEST_MODEL, "source": "hf://meta-llama/Llama@main"},
        speed=speed,
        cache={
            "weights": {"size": "1Gi", "reclaimPolicy": "Delete"},
            "compile": {"size": "1Gi", "sharing": "PerReplica"},
        },
    )


def endpoints_of(k8s: Kubernetes, service: str) -> set[str]:
    """Names of the pods behind a Service."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{k8s.namespace}/endpointslices"
    slices: list[Any] = k8s._api.request(
        "GET", f"{path}?labelSelector=kubernetes.io/service-name%3D{service}"
    )["items"]
    return {
        endpoint["targetRef"]["name"]
        for each in slices
        for endpoint in each.get("endpoints") or []
        if endpoint["conditions"].get("ready")
    }


def wait_endpoints(k8s: Kubernetes, service: str, pods: set[str]) -> None:
    """Wait until exactly these pods are behind the Service."""
    eventually(lambda: endpoints_of(k8s, service) == pods, "the Service leads to the tier's own pods")


def test_tiers_with_names_of_full_length_serve_side_by_side_and_are_removed(
    k8s: Kubernetes, cluster: "Cluster"
) -> None:
    tiers = {LETTERS: LONGEST_SPEED, TWIN: "fast", DOTTED: "standard"}
    for name, speed in tiers.items():
        k8s.apply(long_tier(name, speed))
    for name in tiers:
        wait_ready(k8s, name)
    children: dict[str, set[str]] = {}
    for name in tiers:
        status = k8s.must_get("InferenceTier", name)["status"]
        owner = k8s.must_get("InferenceTier", name)["metadata"]["uid"]
        for kind in KINDS:
            found = k8s.list(kind, status["selector"])
            own = {each["metadata"]["name"] for each in found}
            assert own, f"{kind} of {name[:20]}"
            assert all(len(each) <= LIMIT for each in own), own
            assert not own & children.setdefault(kind, set()), "two tiers share a child's name"
            children[kind] |= own
            assert {each["metadata"]["ownerReferences"][0]["uid"] for each in found} == {owner}
            assert {each["metadata"]["annotations"]["tierwright.dev/model-name"] for each in found} == {
                LONGEST_MODEL
            }
        pods = {each["metadata"]["name"] for each in k8s.list("Pod", status["selector"])}
        service = status["endpoint"].partition(".")[0]
        wait_endpoints(k8s, service, pods)

    k8s.patch("InferenceTier", TWIN, {"spec": {"cache": {"weights": None}, "replicas": 2}})
    eventually(lambda: k8s.must_get("InferenceTier", TWIN)["status"]["ready"] == "2/2", "it can be scaled")
    for name in tiers:
        k8s.delete("InferenceTier", name, propagation="Foreground")
    for name in tiers:
        eventually(lambda n=name: k8s.get("InferenceTier", n) is None, "the tier is gone")  # type: ignore[misc]
    for kind in KINDS:
        eventually(
            lambda kind=kind: not k8s.list(kind, "app.kubernetes.io/managed-by=tierwright"),  # type: ignore[misc]
            f"each {kind} is gone",
        )


def test_one_character_more_is_refused_at_once(k8s: Kubernetes) -> None:
    from dev.cluster.api import ApiError

    with pytest.raises(ApiError, match=r"must be no more than 253 characters|Too long"):
        k8s.apply(tier("l" * 254))
    with pytest.raises(ApiError, match=r"model\.name"):
        k8s.apply(tier(model={"name": LONGEST_MODEL + "m", "source": "hf://a/b@c"}))
    apply_ready(k8s, tier())
