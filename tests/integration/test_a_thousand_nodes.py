"""A thousand nodes: pools are read whole in bounded memory, a tier finds its own, and the cluster's status stays short.

How long each part took is logged (`pytest --log-cli-level=INFO`); no test fails on it.
"""

import asyncio
import logging
import os
import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dev.cluster import __main__ as command
from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.kwok import nodes as kwok
from dev.cluster.nodes.pools import FAST, GKE_H100
from dev.cluster.programs import source
from tests.conftest import QUICK
from tests.integration.live import Object, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes, fresh_namespace
from tests.support.operator_process import (
    RBAC_KINDS,
    ROOT,
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
    shipped_objects,
)
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually, holds_for
from tierwright.api.tier import InferenceTier
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.node_reader import NodeReader
from tierwright.control.pools import Pools
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import HttpKubeClient
from tierwright.observe.store import Store

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ADDED: Final = 1000
ALL: Final = ADDED + len(kwok.default_nodes())
IN_FAST: Final = ADDED + FAST.kwok_nodes
PER_NODE: Final = FAST.devices["nvidia.com/gpu"]
READING_MAY_TAKE: Final = 16 * 2**20
"""Bytes: the slimmed nodes, and one page of 200 of them as the server sends it."""

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def large() -> Iterator[Cluster]:
    """A cluster of this module's own: elsewhere a thousand nodes would be in the way."""
    source.kwok()
    source.programs()
    with clusters.cluster(f"large-{os.getpid()}", use_given=False) as running:
        api = running.api()
        nodes = kwok.pool_nodes(FAST, ADDED, first=FAST.kwok_nodes + 1)
        with told(f"{ADDED} nodes are made and Ready"):
            kwok.create_nodes(api, nodes, ready=True)
            kwok.wait_ready(api, nodes, clusters.daemons(running.name))
        api.close()
        yield running


@pytest.fixture(scope="module")
def boss(large: Cluster) -> Iterator[Kubernetes]:
    """The administrator of the large cluster, with the CRD installed and the right to list nodes given to the operator."""
    user = Kubernetes(large.kubeconfig)
    install_crd(user)
    yield user
    user.close()


@pytest.fixture(scope="module")
def reads_nodes(
    large: Cluster, boss: Kubernetes, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A kubeconfig of the operator as the chart installs it with `poolSize: nodes`, and its user's name."""
    found = operator_kubeconfig(boss, large.helm, tmp_path_factory.mktemp("operator"))
    for each in shipped_objects(large.helm, "poolSize=nodes"):
        if each["kind"] in RBAC_KINDS:
            boss.apply(each)
    return found


@contextmanager
def told(what: str) -> Iterator[None]:
    """Log how long a part took."""
    began = time.monotonic()
    yield
    log.info("%s: %.2f s", what, time.monotonic() - began)


def gpu_tier(name: str, pool: dict[str, str], count: int, **spec: Any) -> Object:
    """A tier of `count` devices a replica in the pool of these labels."""
    hardware = {"accelerator": "nvidia", "count": count, "nodePool": {"matchLabels": pool}}
    engine = {"type": "vllm", "tensorParallel": count}
    return tier(name, speed=name, engine=engine, hardware=hardware, **spec)


def asked(name: str, count: int) -> InferenceTier:
    """Such a tier of the fast pool, read."""
    manifest = gpu_tier(name, {"karpenter.sh/nodepool": FAST.name}, count, scaling={"mode": "Manual"})
    manifest["metadata"]["namespace"] = "default"
    return InferenceTier.model_validate(manifest)


async def test_all_are_read_page_by_page_and_each_counts_in_its_pool(
    large: Cluster, boss: Kubernetes, reads_nodes: tuple[Path, str]
) -> None:
    pools = Pools(Store(INFERENCE_TIER, label_value, TIER_LABEL))
    client = await HttpKubeClient.connect(str(reads_nodes[0]))
    reader = NodeReader(client, pools)

    def room(count: int) -> int | None:
        now = datetime.now(UTC)
        return pools.room(("default", "big"), asked("big", count), now).placeable

    try:
        async with asyncio.timeout(60):  # the authorizer learns of the new binding a moment later
            while pools.nodes is None:
                await reader.read()
        with told(f"{ALL} nodes are read"):
            await reader.read()
        tracemalloc.start()
        try:
            await reader.read()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        log.info("%d nodes are read within %.1f MiB", ALL, peak / 2**20)
        assert pools.nodes is not None
        assert len({each.name for each in pools.nodes}) == ALL
        assert peak < READING_MAY_TAKE
        with told("the room of a tier is computed"):
            assert room(PER_NODE) == IN_FAST
        pools._on_nodes = None
        assert room(PER_NODE // 2) == 2 * IN_FAST
    finally:
        await client.close()


async def test_a_cordoned_and_a_lost_node_of_a_thousand_are_no_room(
    large: Cluster, boss: Kubernetes, reads_nodes: tuple[Path, str]
) -> None:
    pools = Pools(Store(INFERENCE_TIER, label_value, TIER_LABEL))
    client = await HttpKubeClient.connect(str(reads_nodes[0]))
    reader = NodeReader(client, pools)
    api = large.api()
    cordoned, lost = FAST.node_name(700), FAST.node_name(701)
    try:
        boss.list("Namespace")  # a read opens the connection again that the server closed while it was idle
        boss.patch("Node", cordoned, {"spec": {"unschedulable": True}})
        kwok.set_node_ready(api, lost, ready=False)
        async with asyncio.timeout(60):
            while not _room_is(pools, IN_FAST - 2):
                await reader.read()
                pools._on_nodes = None
    finally:
        await client.close()
        boss.list("Namespace")
        boss.patch("Node", cordoned, {"spec": {"unschedulable": None}})
        kwok.set_node_ready(api, lost, ready=True)
        api.close()


def _room_is(pools: Pools, wanted: int) -> bool:
    if pools.nodes is None:
        return False
    return pools.room(("default", "big"), asked("big", PER_NODE), datetime.now(UTC)).placeable == wanted


@pytest.fixture(scope="module")
def operator(
    large: Cluster, reads_nodes: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator under the shipped role, which knows its pools from the nodes."""
    kubeconfig, user = reads_nodes
    folder = tmp_path_factory.mktemp("process")
    with running_operator(kubeconfig, user, folder, pool_size="nodes", **QUICK) as process:
        yield process


def test_a_tier_is_ready_on_its_own_pool_and_a_full_one_is_told_at_once(
    large: Cluster, operator: OperatorProcess
) -> None:
    label = "cloud.google.com/gke-nodepool"
    pool = {label: GKE_H100.labels[label]}
    scaling = {
        "mode": "Auto",
        "minReplicas": 1,
        "maxReplicas": 6,
        "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
        "coldStart": "5s",
    }
    with fresh_namespace(large.kubeconfig) as k8s, played_engines(k8s) as engines:
        engines.rates["full"] = 400.0
        with told("20 replicas on a thousand nodes are Ready"):
            k8s.apply(gpu_tier("wide", {"karpenter.sh/nodepool": FAST.name}, PER_NODE, replicas=20))
            wait_ready(k8s, "wide")
        pods = k8s.list("Pod", "tierwright.dev/tier=wide")
        on = {pod["spec"]["nodeName"] for pod in pods}
        assert len(pods) == len(on) == 20
        assert all(name.startswith(f"{FAST.name}-") for name in on)
        k8s.apply(gpu_tier("full", pool, GKE_H100.devices["nvidia.com/gpu"] // 2, scaling=scaling))
        # The pool's one node holds two replicas; nobody waits a minute for a third one to find no place.
        told_full = wait_condition(k8s, "ScalingActive", "True", "PoolFull", name="full", deadline_s=150)
        assert "no room" in told_full["message"]

        def fills_its_pool() -> bool:
            found = k8s.list("Pod", "tierwright.dev/tier=full")
            return [pod["spec"].get("nodeName") for pod in found] == [GKE_H100.node_name(1)] * 2

        eventually(fills_its_pool, "the pool is used")
        holds_for(fills_its_pool, "no replica is asked for that the nodes cannot hold", seconds=5)
    peak = _peak_memory(operator.process.pid)
    log.info("the operator took %d MiB at most", peak >> 20)
    assert peak < _memory_limit()


def _peak_memory(pid: int) -> int:
    """The most bytes that a process held so far; 0 where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _memory_limit() -> int:
    values = yaml.safe_load((ROOT / "charts" / "tierwright" / "values.yaml").read_text(encoding="utf-8"))
    text = str(values["resources"]["limits"]["memory"])
    assert text.endswith("Mi"), text
    return int(text.removesuffix("Mi")) * 2**20


def test_the_clusters_status_shows_twenty_nodes_and_how_many_more(
    large: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["status", "--name", large.name]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(" Ready") for line in shown) == 20
    assert f"  and {ALL - 20} more" in shown
