"""The one table of node pools: labels, taints, devices and sizes that real nodes and kwok nodes alike are given.

Labels and taints are those that the clouds put on such nodes: Karpenter and EKS name a pool by
`karpenter.sh/nodepool`, GKE by `cloud.google.com/gke-nodepool`; device resources are those of the NVIDIA and
Neuron device plugins.
"""

from collections.abc import Mapping
from dataclasses import dataclass

POOL_LABEL = "tierwright.dev/pool"
"""On every node of dev.cluster: the name of its pool in this table."""


@dataclass(frozen=True)
class Taint:
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Pool:
    """One pool of equal nodes.

    `devices` maps extended resource names to the number on each node. `cpu` and `memory` are Kubernetes quantities
    that kwok nodes show (a real node shows this machine's own). `real_nodes` and `kwok_nodes` are how many nodes of
    the pool a cluster has unless the caller says otherwise.
    """

    name: str
    labels: Mapping[str, str]
    cpu: str
    memory: str
    devices: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    real_nodes: int = 0
    kwok_nodes: int = 1

    def node_name(self, number: int) -> str:
        """The name of the pool's node `number`, counted from 1."""
        return f"{self.name}-{number}"

    def node_labels(self, number: int) -> dict[str, str]:
        """All labels of the pool's node `number` but `kubernetes.io/hostname`; nodes alternate between two zones."""
        zone = "ab"[(number - 1) % 2]
        return {
            **self.labels,
            POOL_LABEL: self.name,
            "topology.kubernetes.io/region": "local",
            "topology.kubernetes.io/zone": f"local-{zone}",
        }


_NVIDIA = Taint("nvidia.com/gpu", "present")

STANDARD = Pool(
    name="standard",
    labels={
        "karpenter.sh/nodepool": "standard",
        "node.kubernetes.io/instance-type": "g6e.12xlarge",
        "karpenter.k8s.aws/instance-gpu-name": "l40s",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-L40S",
    },
    cpu="48",
    memory="384Gi",
    devices={"nvidia.com/gpu": 4},
    # No taint: pods that need no accelerator (the operator) live here, as where a pool is not dedicated.
    real_nodes=1,
)

FAST = Pool(
    name="fast",
    labels={
        "karpenter.sh/nodepool": "fast",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "karpenter.k8s.aws/instance-gpu-name": "h100",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    },
    cpu="192",
    memory="2Ti",
    devices={"nvidia.com/gpu": 8},
    taints=(_NVIDIA,),
    real_nodes=1,
)

GKE_H100 = Pool(
    name="gke-h100",
    labels={
        "cloud.google.com/gke-nodepool": "gke-h100",
        "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
        "cloud.google.com/gke-accelerator-count": "8",
        "node.kubernetes.io/instance-type": "a3-highgpu-8g",
    },
    cpu="208",
    memory="1872Gi",
    devices={"nvidia.com/gpu": 8},
    taints=(_NVIDIA,),
)

INF2 = Pool(
    name="inf2",
    labels={
        "karpenter.sh/nodepool": "inf2",
        "eks.amazonaws.com/nodegroup": "inf2",
        "node.kubernetes.io/instance-type": "inf2.48xlarge",
    },
    cpu="192",
    memory="384Gi",
    devices={"aws.amazon.com/neuron": 12, "aws.amazon.com/neuroncore": 24},
    taints=(Taint("aws.amazon.com/neuron", "present"),),
)

CPU = Pool(
    name="cpu",
    labels={"karpenter.sh/nodepool": "cpu", "node.kubernetes.io/instance-type": "m7i.4xlarge"},
    cpu="16",
    memory="64Gi",
    devices={},
)

POOLS: tuple[Pool, ...] = (STANDARD, FAST, GKE_H100, INF2, CPU)
"""Every pool, in the order in which nodes are started and shown."""


def pool(name: str) -> Pool:
    """The pool called `name`. Raises KeyError that lists the names there are."""
    for candidate in POOLS:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no pool {name!r}; there are {', '.join(each.name for each in POOLS)}")
