"""Tiers that break a rule on hardware or pods."""

from typing import Final

from tests.support.tiers.cases import REMOVE, Case

HARDWARE: Final[tuple[Case, ...]] = (
    Case("spec.hardware.count", "nvidia and neuron need count", {"hardware.count": REMOVE}),
    Case("spec.hardware.count", "there are no devices", {"hardware.count": 1}, "cpu"),
    Case(
        "spec.hardware.resourceName", "the accelerator has no such", {"hardware.resourceName": "x.y/z"}, "cpu"
    ),
    Case(
        "spec.hardware.resourceName",
        "the accelerator has no such",
        {"hardware.resourceName": "aws.amazon.com/neurondevice"},
        "neuron",
    ),
    Case(
        "spec.hardware.resourceName",
        "the accelerator has no such",
        {"hardware.resourceName": "aws.amazon.com/neuron"},
    ),
    Case(
        "spec.hardware.count",
        "tensorParallel * pipelineParallel * dataParallel must be count * hosts: each GPU",
        {"engine.tensorParallel": 4, "hardware.count": 2},
    ),
    Case(
        "spec.hardware.count",
        "tensorParallel * pipelineParallel * dataParallel must be count * hosts: each GPU",
        {"engine.tensorParallel": 2, "hardware.count": 2, "hardware.hosts": 2},
    ),
    Case(
        "spec.hardware.count",
        "tensorParallel * pipelineParallel * dataParallel must be count * hosts * 2",
        {"engine.tensorParallel": 4, "hardware.count": 4},
        "neuron",
    ),
    Case(
        "spec.hardware.count",
        "tensorParallel * pipelineParallel * dataParallel must be count * hosts: each core",
        {
            "engine.tensorParallel": 2,
            "hardware.count": 1,
            "hardware.resourceName": "aws.amazon.com/neuroncore",
        },
        "neuron",
    ),
    Case(
        "spec.engine.tensorParallel",
        "that many NeuronCores",
        {"engine.tensorParallel": 6, "hardware.count": 3},
        "neuron",
    ),
    Case(
        "spec.engine.tensorParallel",
        "MIG slices cannot",
        {"engine.tensorParallel": 2, "hardware.count": 2, "hardware.resourceName": "nvidia.com/mig-3g.40gb"},
    ),
    Case(
        "spec.hardware.nodePool.matchLabels",
        "a key is no label key",
        {"hardware.nodePool.matchLabels": {"a b": "c"}},
    ),
    Case(
        "spec.hardware.nodePool.matchExpressions[0].key",
        "this is no label key",
        {"hardware.nodePool.matchExpressions": [{"key": "/a", "operator": "Exists"}]},
    ),
    *(
        Case(
            "spec.hardware.nodePool.matchExpressions[0].values",
            "In and NotIn need values",
            {"hardware.nodePool.matchExpressions": [{"key": "a", "operator": operator, "values": values}]},
        )
        for operator, values in (("In", []), ("Exists", ["x"]), ("Gt", ["1", "2"]), ("Lt", ["x"]))
    ),
    Case(
        "spec.hardware.tolerations[0].value",
        "operator Exists compares",
        {"hardware.tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
    ),
    Case("spec.hardware.tolerations[0].operator", "a toleration without key", {"hardware.tolerations": [{}]}),
    Case(
        "spec.hardware.tolerations[0].key", "this is no taint key", {"hardware.tolerations": [{"key": "a b"}]}
    ),
    Case(
        "spec.hardware.tolerations[0].tolerationSeconds",
        "tolerationSeconds needs",
        {"hardware.tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]},
    ),
    Case("spec.hardware.resources.cpu", "no pod runs on zero cpu", {"hardware.resources.cpu": 0}),
    *(
        Case(
            f"spec.hardware.resources.{name}",
            f"no pod runs on less than 1Mi of {name}; give the amount with its unit",
            {f"hardware.resources.{name}": amount},
        )
        for name, amount in (
            ("memory", "0Gi"),
            ("memory", 4),
            ("memory", 4096),
            ("memory", "1023Ki"),
            ("sharedMemory", "2"),
            ("ephemeralStorage", 50),
        )
    ),
    Case(
        "spec.hardware.resources.sharedMemory",
        "sharedMemory is a part of",
        {"hardware.resources": {"memory": "2Gi", "sharedMemory": "2048Mi"}},
    ),
    Case(
        "spec.pod.serviceAccount.annotations",
        "an existing ServiceAccount",
        {"pod.serviceAccount": {"name": "a", "annotations": {"a": "b"}}},
    ),
    Case(
        "spec.pod.serviceAccount.annotations",
        "a key is no annotation key",
        {"pod.serviceAccount": {"annotations": {"a/b/c": "d"}}},
    ),
)
