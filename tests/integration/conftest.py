"""Node pools of a test's own, for what a shared pool cannot show: a full one, one that appears late."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from dev.cluster.kwok import nodes as kwok
from dev.cluster.nodes.pools import Pool, Taint
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

NewPool = Callable[[str, int], None]
"""Makes one tainted node with this many GPUs in the Karpenter pool of this name, and waits until it is Ready."""


@pytest.fixture
def pool_name() -> str:
    """The name of a node pool that does not exist yet."""
    return f"own-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_pool(admin: Kubernetes) -> Iterator[NewPool]:
    """Makes node pools that are removed afterwards."""
    made: list[str] = []

    def make(name: str, gpus: int) -> None:
        pool = Pool(
            name=name,
            labels={"karpenter.sh/nodepool": name},
            cpu="64",
            memory="512Gi",
            devices={"nvidia.com/gpu": gpus},
            taints=(Taint("nvidia.com/gpu", "present"),),
        )
        nodes = kwok.pool_nodes(pool, 1, index=5000 + len(made))
        admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
        kwok.create_nodes(admin._api, nodes)
        made.append(pool.node_name(1))
        kwok.wait_ready(admin._api, nodes, [])

    yield make
    for node in made:
        for pod in admin._api.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]:
            admin.delete("Pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        admin.delete("Node", node)
        eventually(lambda node=node: admin.get("Node", node) is None, f"node {node} is gone")  # type: ignore[misc]
