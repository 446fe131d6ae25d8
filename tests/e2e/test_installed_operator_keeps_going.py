"""Volumes outlive their tiers, tiers that did not fit start when there is room, and an operator that is killed comes back."""

from collections.abc import Iterator

import pytest

from dev.cluster.nodes.pools import FAST
from tests.e2e.installation import (
    OPERATOR_USER,
    SYSTEM,
    Installation,
    Object,
    applied,
    argument,
    engine,
    pods,
    serves,
    tier,
    told,
)
from tests.e2e.real_cluster import gone, probe_pod, ready
from tests.support.kubernetes import Kubernetes, mutations
from tests.support.waiting import eventually

FETCHED = "/models/hf/owner/model/main"
DEVICES = "nvidia.com/gpu"
TOO_MANY = 16

CACHED = tier(
    "cached",
    model={"name": "models/cached", "source": "hf://owner/model@main"},
    replicas=0,
    cache={"weights": {"size": "1Gi", "storageClassName": "shared", "accessMode": "ReadWriteMany"}},
)
GROWS = tier(
    "grows",
    cache={
        "compile": {
            "size": "1Gi",
            "storageClassName": "shared",
            "accessMode": "ReadWriteMany",
            "sharing": "Shared",
        }
    },
)
BIG = tier(
    "big",
    engine=engine({"tensorParallel": TOO_MANY}),
    hardware={
        "accelerator": "nvidia",
        "count": TOO_MANY,
        "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "fast"}},
        "resources": {"cpu": "20m", "memory": "256Mi", "sharedMemory": "16Mi"},
    },
)
SETTLED = tier("settled")
ROLLS = tier("rolls", env={"START_SECONDS": "3"}, replicas=2)


@pytest.fixture(scope="module", autouse=True)
def tiers(serving: Kubernetes) -> None:
    """All tiers of this module, on their way."""
    applied(serving, (CACHED, GROWS, BIG, SETTLED, ROLLS))


def claim_of(k8s: Kubernetes, name: str) -> Object:
    """The tier's one volume claim, bound."""

    def look() -> Object:
        found = k8s.list("PersistentVolumeClaim", f"tierwright.dev/tier={name}")
        assert [each["status"]["phase"] for each in found] == ["Bound"]
        return found[0]

    return eventually(look, f"the claim of {name} is bound", 60)


def test_weights_are_fetched_once_and_are_kept_for_a_tier_of_the_same_name(
    installation: Installation, serving: Kubernetes
) -> None:
    claim = claim_of(serving, "cached")
    assert "ownerReferences" not in claim["metadata"]
    # What the init container leaves behind when it has fetched everything; it then needs no network.
    fill = f"mkdir -p {FETCHED} && touch {FETCHED}/.tierwright-complete && sleep 600"
    serving.create(
        probe_pod("filler", command=["sh", "-c", fill], volumes={claim["metadata"]["name"]: "/models"})
    )
    ready(serving, "filler")
    execute = installation.cluster.execute
    eventually(lambda: "complete" in execute(serving, "filler", "ls", "-A", FETCHED), "the weights are there")
    serving.patch("InferenceTier", "cached", {"spec": {"replicas": 1}}, "scale")
    serves(serving, "cached")
    (pod,) = pods(serving, "cached")
    name = pod["metadata"]["name"]
    said = installation.tools(serving.namespace).kubectl("logs", name, "-c", "fetch-weights")
    assert "owner/model at main is on the volume already" in said
    assert ".tierwright-complete" in execute(serving, name, "ls", "-A", FETCHED)
    written = installation.cluster.kubectl(
        "-n", serving.namespace, "exec", name, "-c", "engine", "--", "touch", "/models/file"
    )
    assert "Read-only file system" in written.stderr

    serving.delete("InferenceTier", "cached", "Foreground")
    gone(serving, "InferenceTier", "cached")
    assert claim_of(serving, "cached")["metadata"]["uid"] == claim["metadata"]["uid"]
    serving.apply({**CACHED, "spec": {**CACHED["spec"], "replicas": 1}})
    serves(serving, "cached")
    assert claim_of(serving, "cached")["metadata"]["uid"] == claim["metadata"]["uid"]


def test_a_cache_volume_grows_under_a_running_pod(installation: Installation, serving: Kubernetes) -> None:
    serves(serving, "grows")
    before = claim_of(serving, "grows")
    (pod,) = pods(serving, "grows")
    installation.cluster.execute(serving, pod["metadata"]["name"], "touch", "/cache/compiled")
    serving.patch("InferenceTier", "grows", {"spec": {"cache": {"compile": {"size": "2Gi"}}}})

    def capacity() -> bool:
        return bool(claim_of(serving, "grows")["status"]["capacity"] == {"storage": "2Gi"})

    eventually(capacity, "the volume has 2Gi", 60)
    serves(serving, "grows")
    assert claim_of(serving, "grows")["metadata"]["uid"] == before["metadata"]["uid"]
    assert [each["metadata"]["uid"] for each in pods(serving, "grows")] == [pod["metadata"]["uid"]]


@pytest.fixture
def fast_node(serving: Kubernetes) -> Iterator[str]:
    """A node whose number of devices a test may change."""
    name = FAST.node_name(1)
    yield name
    set_devices(serving, name, FAST.devices[DEVICES])


def set_devices(k8s: Kubernetes, node: str, count: int) -> None:
    """What a device plugin does when it finds this many devices."""
    counted = {DEVICES: str(count)}
    k8s.patch("Node", node, {"status": {"capacity": counted, "allocatable": counted}}, "status")


def test_a_tier_that_does_not_fit_says_why_and_starts_when_there_is_room(
    serving: Kubernetes, fast_node: str
) -> None:
    words = told(serving, "big", "Unschedulable")
    assert f"Insufficient {DEVICES}" in words
    assert told(serving, "big", "Unschedulable", kind="Scheduled") in words
    set_devices(serving, fast_node, TOO_MANY)
    serves(serving, "big")
    assert [pod["spec"]["nodeName"] for pod in pods(serving, "big")] == [fast_node]
    serving.delete("InferenceTier", "big", "Foreground")
    gone(serving, "InferenceTier", "big")


def test_a_rollout_ends_well_when_the_operator_is_killed_and_settled_tiers_are_left_alone(
    installation: Installation, serving: Kubernetes
) -> None:
    for name in ("settled", "rolls"):
        serves(serving, name)
    audit = installation.audit_log
    before = len(mutations(audit, OPERATOR_USER))
    old = {pod["metadata"]["uid"] for pod in pods(serving, "rolls")}
    operator = installation.tools(SYSTEM)
    (killed,) = [pod["metadata"]["name"] for pod in operator.objects("pods")]
    serving.patch("InferenceTier", "rolls", {"spec": {"engine": {"batching": {"maxSequences": 5}}}})
    told(serving, "rolls", "RollingOut", kind="Reconciling")
    operator.kubectl("delete", "pod", killed, "--force", "--grace-period=0")
    # Nobody is there to see this one.
    serving.patch("InferenceTier", "rolls", {"spec": {"engine": {"batching": {"maxSequences": 6}}}})
    serves(serving, "rolls", deadline_s=120)
    now = pods(serving, "rolls")
    assert len(now) == 2
    assert not old & {pod["metadata"]["uid"] for pod in now}
    assert [argument(pod, "--max-num-seqs") for pod in now] == ["6", "6"]
    operator.kubectl("rollout", "status", "deployment/tierwright-operator", "--timeout=60s")
    touched = [
        (each["verb"], each["objectRef"]["resource"], each["objectRef"].get("name"))
        for each in mutations(audit, OPERATOR_USER)[before:]
        if each["objectRef"].get("namespace") == serving.namespace
    ]
    assert touched, "the rollout was written by somebody"
    assert [each for each in touched if str(each[2]).startswith("settled")] == []
