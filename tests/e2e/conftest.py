"""Fixtures of tests on real nodes. Only one such cluster fits on a machine, so each test module has its own."""

import os
import uuid
from collections.abc import Iterator

import pytest

from dev.cluster import build, launch, network, nodes, paths, processes
from dev.cluster.base_image import ensure_base_images
from dev.cluster.mounts import remove_tree
from dev.cluster.node_requirements import missing_requirements
from dev.cluster.pools import POOLS
from tests.e2e.real_cluster import RealCluster
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def real_cluster() -> Iterator[RealCluster]:
    """A cluster with the real nodes of the table of pools, which know the probe image."""
    if missing := missing_requirements():
        pytest.skip("no real nodes here: " + "; ".join(missing))
    cluster = start(f"e2e-{os.getpid()}")
    try:
        yield cluster
    finally:
        stop(cluster)


def start(name: str) -> RealCluster:
    """Bring up a control plane and the real nodes, with the probe image loaded."""
    run_dir, programs = paths.run_dir(name), build.built(build.KUBERNETES)
    plan = network.prepare_network(run_dir, name)
    plane = launch.start_control_plane(
        name,
        run_dir,
        programs,
        build.pinned_version(build.KUBERNETES),
        str(plan.control_plane),
        str(plan.services),
    )
    running = nodes.start_real_nodes(plane, POOLS, ensure_base_images().pause_archive)
    cluster = RealCluster(run_dir, plane.admin_kubeconfig, plane.binary("kubectl"), running)
    cluster.load_probe()
    return cluster


def stop(cluster: RealCluster) -> None:
    """Bring all of it down."""
    nodes.stop_leftovers(cluster.run_dir)
    processes.stop(processes.load(cluster.run_dir))
    remove_tree(cluster.run_dir)


@pytest.fixture
def k8s(real_cluster: RealCluster) -> Iterator[Kubernetes]:
    """The administrator in a fresh namespace, which is deleted afterwards."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    user = Kubernetes(real_cluster.kubeconfig, namespace)
    user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    eventually(lambda: user.get("ServiceAccount", "default") is not None, "the namespace's service account")
    try:
        yield user
    finally:
        user.delete("Namespace", namespace)
        user.close()
