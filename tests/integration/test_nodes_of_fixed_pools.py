"""Nodes are read where the right was given, without what nobody needs of them; without the right nothing is limited."""

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from dev.cluster.nodes.pools import FAST
from tests.integration.live import tier
from tests.support.kubernetes import Kubernetes
from tests.support.operator_process import NAMESPACE, operator_kubeconfig, shipped_objects
from tests.support.waiting import eventually
from tierwright.api.tier import InferenceTier
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.node_reader import NodeReader
from tierwright.control.node_room import NodeRoom
from tierwright.control.pools import Pools
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import HttpKubeClient
from tierwright.observe.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dev.cluster.cluster import Cluster
    from tierwright.observe.nodes import NodeView

pytestmark = pytest.mark.integration

CLUSTER_KINDS = ("ClusterRole", "ClusterRoleBinding")


async def test_the_right_to_list_nodes_comes_with_pools_of_a_fixed_size_alone(
    cluster: "Cluster",
    admin: Kubernetes,
    crd: None,
    tmp_path: "Path",
    caplog: pytest.LogCaptureFixture,
) -> None:
    kubeconfig, _ = operator_kubeconfig(admin, cluster.helm, tmp_path)
    pools = Pools(Store(INFERENCE_TIER, label_value, TIER_LABEL))
    client = await HttpKubeClient.connect(str(kubeconfig))
    reader = NodeReader(client, pools)
    added = [
        each
        for each in shipped_objects(cluster.helm, "poolSize=nodes")
        if each["kind"] in CLUSTER_KINDS and each["metadata"]["name"].endswith("-nodes")
    ]
    assert [each["kind"] for each in added] == list(CLUSTER_KINDS), NAMESPACE

    def known() -> "Sequence[NodeView] | None":
        return pools.nodes

    try:
        with caplog.at_level(logging.WARNING):
            await reader.read()
            await reader.read()
        assert known() is None
        assert len(caplog.records) == 1, "a refusal is said once"
        assert "nodes is forbidden" in caplog.text
        for each in added:
            admin.apply(each)
        count = len(admin.list("Node"))
        async with asyncio.timeout(30):  # the authorizer learns of a new binding a moment later
            while known() is None:
                await asyncio.sleep(0.1)
                await reader.read()
        nodes = known()
        assert nodes is not None
        assert len(nodes) == count
        manifest = tier("reads", scaling={"mode": "Manual"})
        manifest["metadata"]["namespace"] = "default"
        found = NodeRoom(nodes, {}).devices(InferenceTier.model_validate(manifest))
        assert found[FAST.node_name(1)] == FAST.devices["nvidia.com/gpu"]
        assert set(nodes[0].labels) >= {"kubernetes.io/hostname"}
    finally:
        await client.close()
        for each in added:
            admin.delete(each["kind"], each["metadata"]["name"])
    eventually(
        lambda: admin.get("ClusterRole", added[0]["metadata"]["name"]) is None, "the added role is gone"
    )
