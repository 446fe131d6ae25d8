"""A tier on Inferentia2 becomes Ready: pods and compile Job ask for chips or cores in its pool; a full pool is told."""

from typing import Any, Final

import pytest

from dev.cluster.nodes.pools import INF2
from tests.integration.live import NAME, Object, is_scaled_to, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually
from tierwright.hardware.neuron import NEURON_TAINT

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

CHIPS: Final = "aws.amazon.com/neuron"
CORES: Final = "aws.amazon.com/neuroncore"
JOB_OF: Final = "batch.kubernetes.io/job-name"
NODE: Final = INF2.node_name(1)


def neuron_tier(count: int, cores: int, resource: str = CHIPS, **spec: Any) -> Object:
    """A tier in the pool inf2 of `count` devices a replica, whose layers are computed by `cores` cores together."""
    return tier(
        **{
            "model": {"name": "meta/llama", "source": "file:///models/llama"},
            "engine": {
                "type": "jax",
                "image": "registry.example.com/engine-sim:1-neuron",
                "tensorParallel": cores,
            },
            "hardware": {
                "accelerator": "neuron",
                "count": count,
                "resourceName": resource,
                "nodePool": {"matchLabels": {"karpenter.sh/nodepool": INF2.name}},
                "resources": {"cpu": "8", "memory": "32Gi"},
            },
            **spec,
        }
    )


def check_pinned(pod: Object, resource: str, count: int, cores: int) -> None:
    """The pod asks for so many devices of this kind and no other, tolerates the pool's taint, and lies on its node."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    resources = container["resources"]
    asked = {
        name: amount
        for name, amount in resources["limits"].items()
        if name.startswith(("aws.amazon.com/", "nvidia.com/"))
    }
    assert asked == {resource: str(count)}
    assert resources["requests"][resource] == str(count)
    assert {"name": "NEURON_RT_NUM_CORES", "value": str(cores)} in container["env"]
    assert any(each.get("key") == NEURON_TAINT for each in spec["tolerations"])
    assert spec["nodeName"] == NODE


@pytest.mark.parametrize(
    ("resource", "count", "cores"), [(CHIPS, 4, 8), (CORES, 8, 8)], ids=["chips", "cores"]
)
def test_every_replica_gets_its_devices_in_the_pool_and_one_too_many_is_told(
    k8s: Kubernetes, resource: str, count: int, cores: int
) -> None:
    fits = INF2.devices[resource] // count
    k8s.apply(neuron_tier(count, cores, resource, replicas=fits))
    wait_ready(k8s)
    eventually(is_scaled_to(k8s, fits), "all replicas are ready")
    assert k8s.must_get("InferenceTier", NAME)["status"]["nodePool"] == f"karpenter.sh/nodepool={INF2.name}"
    pods = k8s.list("Pod", f"tierwright.dev/tier={NAME}")
    assert len(pods) == fits
    for pod in pods:
        check_pinned(pod, resource, count, cores)
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": fits + 1}}, subresource="scale")
    told = wait_condition(k8s, "Scheduled", "False", "Unschedulable")
    assert f"Insufficient {resource}" in told["message"]
    wait_condition(k8s, "Ready", "True")


def test_the_job_that_compiles_runs_on_the_pools_chips_before_the_pods(k8s: Kubernetes) -> None:
    """kaito#1428: node selection was honoured for one kind of workload and ignored for another."""
    volume = {"size": "1Gi", "storageClassName": "shared", "accessMode": "ReadWriteMany", "sharing": "Shared"}
    annotations = {"kwok.tierwright.dev/run-seconds": "3"}
    k8s.apply(
        neuron_tier(4, 8, cache={"compile": volume}, podTemplate={"metadata": {"annotations": annotations}})
    )

    def compiles() -> Object:
        found = [pod for pod in k8s.list("Pod") if JOB_OF in pod["metadata"].get("labels", {})]
        assert found, "no pod of a Job yet"
        assert found[0]["spec"].get("nodeName"), found[0]["status"]
        return found[0]

    check_pinned(eventually(compiles, "the Job's pod has a node"), CHIPS, 4, 8)
    wait_ready(k8s)
    (pod,) = k8s.list("Pod", f"tierwright.dev/tier={NAME}")
    check_pinned(pod, CHIPS, 4, 8)


def test_a_tier_of_another_accelerator_never_lands_on_the_chips(k8s: Kubernetes) -> None:
    spec = neuron_tier(4, 8)["spec"]["hardware"]
    hardware = {"accelerator": "cpu", "nodePool": spec["nodePool"], "resources": spec["resources"]}
    k8s.apply(tier(hardware=hardware))
    told = wait_condition(k8s, "Scheduled", "False", "NodePoolEmpty")
    assert "no node that the tier tolerates" in told["message"]
