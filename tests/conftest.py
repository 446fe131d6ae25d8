"""Fixtures for all tests: one cluster and one operator per run, a namespace per test."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kubernetes import Kubernetes, fresh_namespace

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess


QUICK = {"resync_seconds": "1", "autoscale_seconds": "1", "autoscale_state_seconds": "5"}


def pytest_configure() -> None:
    """A shell that starts the tests in its background has them ignore Ctrl-C, and all that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator["Cluster"]:
    """A control plane with kwok nodes; TIERWRIGHT_TEST_CLUSTER names a running one to use instead."""
    from dev.cluster import cluster as clusters

    if name := os.environ.get("TIERWRIGHT_TEST_CLUSTER"):
        yield clusters.attach(name)
        return
    with clusters.cluster(name=f"test-{os.getpid()}", nodes="kwok", use_given=False) as running:
        yield running


@pytest.fixture(scope="session")
def admin(cluster: "Cluster") -> Iterator[Kubernetes]:
    """The cluster's administrator."""
    user = Kubernetes(cluster.kubeconfig)
    yield user
    user.close()


@pytest.fixture(scope="session")
def crd(admin: Kubernetes) -> None:
    """The CRD is installed."""
    from tests.support.operator_process import install_crd

    install_crd(admin)


@pytest.fixture(scope="session")
def operator(
    cluster: "Cluster", admin: Kubernetes, crd: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["OperatorProcess"]:
    """The operator runs under the shipped role, with a resync every second; it looks at the pods as often."""
    from tests.support.operator_process import operator_kubeconfig, running_operator

    folder: Path = tmp_path_factory.mktemp("operator")
    kubeconfig, user = operator_kubeconfig(admin, cluster.helm, folder)
    with running_operator(kubeconfig, user, folder, **QUICK) as process:
        yield process


@pytest.fixture
def k8s(cluster: "Cluster") -> Iterator[Kubernetes]:
    """A user with a fresh namespace, which is deleted afterwards."""
    with fresh_namespace(cluster.kubeconfig) as user:
        yield user
