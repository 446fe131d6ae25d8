"""Starts kwok, which plays nodes and pods without processes, and makes the nodes that it plays.

What a pod does is decided by annotations on it, all beginning with `kwok.tierwright.dev/`:

| annotation | value |
|---|---|
| behaviour (label too) | image-pull-failure, crash-loop, out-of-memory, never-ready, never-initialized; none: healthy |
| container | the container that fails; default the first |
| startup-seconds | from running to Ready; default at once |
| init-seconds | how long init containers take |
| run-seconds | how long a failing container, or a Job's, runs; default half a second |
| backoff-seconds | how long a crashed container waits for its restart; default one second |
| crashes | how often it crashes before it is healthy; default for ever |
| exit-code, message | of the failing container; default 1 and none (out-of-memory: 137) |
| shutdown-seconds | how long a deleted pod takes to end, at most its grace period; default at once |

Times are exact to a second. An edit takes effect on a running pod. A node is NotReady while its annotation
`not-ready` is "true"; use `set_node_ready`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError
from dev.cluster.control_plane.plane import ADMIN_GROUP, ControlPlane
from dev.cluster.kwok import stages
from dev.cluster.machine import processes
from dev.cluster.machine.processes import Process
from dev.cluster.nodes.pools import POOLS, Pool
from dev.cluster.nodes.readiness import is_ready, takes_pods

NAME = "kwok"
FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}
NOT_READY = "kwok.tierwright.dev/not-ready"
_PODS_PER_NODE = 250
_CONNECTIONS = 8
# kwok renews a lease after a quarter of it; the controller manager waits longer than that (`NODE_GRACE_S`).
_LEASE_S = 400
NODE_GRACE_S = 300
"""How long kwok's nodes may be silent before they count as lost: one busy core must not look like a dead node."""


_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
}


@dataclass(frozen=True)
class KwokNode:
    """One node to make: its pool, its number within the pool (from 1), and its number within the cluster (from 0)."""

    pool: Pool
    number: int
    index: int


def start_kwok(plane: ControlPlane, program: Path) -> Process:
    """Start kwok for the nodes that carry its annotation; the running one when there is one.

    It acts as a user of its own, so that the audit log tells its writes from those of others.
    """
    running = processes.find(plane.run_dir, NAME)
    if running and processes.alive(running):
        return running
    config = plane.run_dir / "kwok.yaml"
    config.write_text(stages.render())
    kubeconfig = plane.kubeconfig(NAME, [ADMIN_GROUP])
    return processes.start(plane.run_dir, NAME, [program, *kwok_flags(kubeconfig, config)])


def kwok_flags(kubeconfig: Path, config: Path) -> list[str]:
    """Only nodes with the annotation are touched, so that kwok and real nodes can share a cluster."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={_LEASE_S}",
        # Pods beyond the first /24 would get no address.
        "--cidr=198.18.0.0/15",  # routed nowhere (RFC 2544): the operator reads the metrics of pods, and these are nobody's
    ]


def default_nodes() -> list[KwokNode]:
    """The nodes that a kwok cluster starts with: `kwok_nodes` of every pool."""
    made = [(pool, number) for pool in POOLS for number in range(1, pool.kwok_nodes + 1)]
    return [KwokNode(pool, number, index) for index, (pool, number) in enumerate(made)]


def pool_nodes(pool: Pool, count: int, first: int = 1, index: int = 100) -> list[KwokNode]:
    """`count` nodes of a pool, numbered from `first` within it and from `index` within the cluster."""
    return [KwokNode(pool, first + offset, index + offset) for offset in range(count)]


def node_object(node: KwokNode, *, ready: bool = False) -> dict[str, Any]:
    """The Node as its kubelet would register it; kwok adds the conditions unless it is born `ready`."""
    name = node.pool.node_name(node.number)
    resources = {
        "cpu": node.pool.cpu,
        "memory": node.pool.memory,
        "ephemeral-storage": "1Ti",
        "pods": str(_PODS_PER_NODE),
        **{device: str(count) for device, count in node.pool.devices.items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": FAKE_NODE,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                # Set by a kubelet too; the node controller would add them, one write per node.
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "type": "kwok",
                **node.pool.node_labels(node.number),
            },
        },
        "spec": {
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.pool.taints
            ]
        },
        "status": {
            "conditions": [dict(_READY)] if ready else [],
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": f"10.64.{node.index // 256}.{node.index % 256}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "containerRuntimeVersion": "kwok://",
                "kubeletVersion": "kwok",
                **dict.fromkeys(
                    ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "osImage", "systemUUID"), ""
                ),
            },
        },
    }


def create_nodes(api: Api, nodes: Sequence[KwokNode], *, ready: bool = False) -> None:
    """Make the nodes, several at a time; those that are there already stay.

    Born `ready`, a node costs three writes fewer: for a thousand of them.
    """

    def create(share: Sequence[KwokNode]) -> None:
        client = api.clone()
        for node in share:
            try:
                client.request("POST", "/api/v1/nodes", node_object(node, ready=ready))
            except ApiError as error:
                if error.status != 409:
                    raise
        client.close()

    shares = [nodes[start::_CONNECTIONS] for start in range(min(_CONNECTIONS, len(nodes)))]
    with ThreadPoolExecutor(len(shares) or 1) as pool:
        for done in pool.map(create, shares):
            assert done is None  # noqa: S101 - brings an exception of the thread here


def wait_ready(
    api: Api, nodes: Sequence[KwokNode], watched: Sequence[Process], deadline_s: float = 120.0
) -> None:
    """Return when all the nodes are Ready and pods may be scheduled to them. Raises processes.ComponentError."""
    names = {node.pool.node_name(node.number) for node in nodes}

    def all_ready() -> bool:
        items = api.request("GET", "/api/v1/nodes").get("items", [])
        return names <= {item["metadata"]["name"] for item in items if takes_pods(item)}

    processes.wait_until(all_ready, f"Ready of {len(names)} kwok nodes", watched, deadline_s)


def set_node_ready(api: Api, name: str, *, ready: bool) -> None:
    """Lose a kwok node, or bring it back, together with the readiness of its pods; waits for the node's condition.

    The pods' part is that of Kubernetes' node controller (a lost node's pods are not ready) and of the kubelet (they
    are again): kwok plays neither, and the node controller acts on its own finding of silence alone.
    """
    path = f"/api/v1/nodes/{name}"
    patch = {"metadata": {"annotations": {NOT_READY: None if ready else "true"}}}
    api.request("PATCH", path, patch, MERGE_PATCH)
    what = f"{name} {'' if ready else 'Not'}Ready"
    processes.wait_until(lambda: is_ready(api.request("GET", path)) is ready, what, [], 30)
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": None, "message": None}
    for pod in api.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={name}").get("items", []):
        containers = pod["status"].get("containerStatuses", [])
        if containers and all(container["ready"] for container in containers):
            where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
            try:
                api.request("PATCH", where, {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)
            except ApiError as error:
                if error.status != 404:  # deleted meanwhile
                    raise
