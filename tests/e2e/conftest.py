"""Fixtures of tests on real nodes. One such cluster fits on a machine, so all tests share it, and their order is kept."""

import os
import uuid
from collections.abc import Iterator

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.nodes.requirements import missing_requirements
from tests.e2e.installation import Installation, images_in_nodes, installed
from tests.e2e.machine import real_nodes
from tests.e2e.real_cluster import RealCluster
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of this folder are of one kind, and the first of them may wait for a build or for another cluster."""
    item.add_marker(pytest.mark.e2e)
    item.add_marker(pytest.mark.timeout(900))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that want the machine for themselves come first, then those of a bare cluster, then those of Tierwright.

    Within one of these groups the order is free.
    """
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    fixtures = set(getattr(item, "fixturenames", ()))
    return ("real_cluster" in fixtures) + ("installation" in fixtures)


@pytest.fixture(scope="session")
def real_nodes_possible() -> None:
    """This machine can run real nodes; tests that need them are skipped, with the reason, where it cannot."""
    if missing := missing_requirements():
        pytest.skip("no real nodes here: " + "; ".join(missing))


@pytest.fixture(scope="session")
def real_cluster(real_nodes_possible: None) -> Iterator[RealCluster]:
    """A cluster with the real nodes of the table of pools, which know the probe image.

    TIERWRIGHT_TEST_REAL_CLUSTER names a running one to use instead.
    """
    if name := os.environ.get("TIERWRIGHT_TEST_REAL_CLUSTER"):
        yield RealCluster.of(clusters.attach(name))
        return
    with real_nodes(f"e2e-{os.getpid()}") as running:
        yield RealCluster.of(running)


@pytest.fixture(scope="session")
def own_images(real_cluster: RealCluster) -> None:
    """The nodes know the operator's and the engine simulator's image, built from the present tree."""
    images_in_nodes(real_cluster)


@pytest.fixture(scope="session")
def installation(real_cluster: RealCluster, own_images: None) -> Iterator[Installation]:
    """Tierwright, installed by its chart; no test may take it away."""
    with installed(real_cluster) as found:
        yield found


@pytest.fixture
def k8s(real_cluster: RealCluster) -> Iterator[Kubernetes]:
    """The administrator in a fresh namespace, which is deleted afterwards."""
    yield from _namespace(real_cluster)


@pytest.fixture(scope="module")
def serving(installation: Installation) -> Iterator[Kubernetes]:
    """The administrator in a namespace for all tiers of a test module, so that they can start side by side."""
    yield from _namespace(installation.cluster)


def _namespace(cluster: RealCluster) -> Iterator[Kubernetes]:
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    user = Kubernetes(cluster.kubeconfig, namespace)
    user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    eventually(lambda: user.get("ServiceAccount", "default") is not None, "the namespace's service account")
    try:
        yield user
    finally:
        user.delete("Namespace", namespace)
        user.close()
