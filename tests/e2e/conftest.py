"""Fixtures of tests on real nodes. Only one such cluster fits on a machine, so each test module has its own."""

import os
import uuid
from collections.abc import Iterator

import pytest

from dev.cluster.node_requirements import missing_requirements
from tests.e2e.machine import real_nodes
from tests.e2e.real_cluster import RealCluster
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually


@pytest.fixture(scope="session")
def real_nodes_possible() -> None:
    """This machine can run real nodes; tests that need them are skipped, with the reason, where it cannot."""
    if missing := missing_requirements():
        pytest.skip("no real nodes here: " + "; ".join(missing))


@pytest.fixture(scope="module")
def real_cluster(real_nodes_possible: None) -> Iterator[RealCluster]:
    """A cluster with the real nodes of the table of pools, which know the probe image."""
    with real_nodes(f"e2e-{os.getpid()}") as running:
        cluster = RealCluster(running.run_dir, running.kubeconfig, running.kubectl)
        cluster.load_probe()
        yield cluster


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
