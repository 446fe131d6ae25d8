"""After `down` the machine is as it was: no process, mount, cgroup, link, route, rule, sysctl or file is left."""

import contextlib
import os
import signal

import pytest

from dev.cluster import cluster as clusters
from dev.cluster import paths
from dev.cluster.machine import processes
from dev.cluster.machine.cgroups import processes as processes_in_cgroups
from dev.cluster.network.host_network import load_network
from tests.e2e.machine import processes_of, real_nodes, snapshot, wait_until_free
from tests.e2e.real_cluster import RealCluster, claim, probe_pod, ready
from tests.support.kubernetes import Kubernetes


def made_busy(running: clusters.Cluster) -> RealCluster:
    """Give the nodes of a fresh cluster a pod each, one with a volume."""
    cluster = RealCluster.of(running)
    k8s = Kubernetes(cluster.kubeconfig)
    k8s.create(claim("data", "standard", "ReadWriteOnce"))
    k8s.create(probe_pod("fast", "fast", volumes={"data": "/data"}))
    k8s.create(probe_pod("standard", "standard"))
    ready(k8s, "fast", "standard")
    k8s.close()
    return cluster


def kill_all(cluster: RealCluster, ending: str = "") -> None:
    """SIGKILL the daemons and container shims whose name has this ending; containers go on without them."""
    for process in [*processes.load(cluster.run_dir), *processes.strays(cluster.run_dir)]:
        if process.name.endswith(ending):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


@pytest.mark.usefixtures("real_nodes_possible")
@pytest.mark.parametrize("end", ["in order", "everything killed", "only the daemons of one node killed"])
def test_down_leaves_the_machine_as_it_was(end: str) -> None:
    name = f"e2e-down-{os.getpid()}"
    wait_until_free()
    before = snapshot()
    with real_nodes(name) as running:
        cluster = made_busy(running)
        during = snapshot()
        assert during.links > before.links
        assert during.tables > before.tables
        assert during.cgroups > before.cgroups
        assert during.sysctls != before.sysctls
        assert processes_of(cluster.run_dir)
        plan = load_network(cluster.run_dir)
        assert plan is not None
        if end != "in order":
            kill_all(cluster, "" if end == "everything killed" else "-fast-1")
            assert processes_in_cgroups(plan.tag)
    assert processes_of(cluster.run_dir) == []
    after = snapshot()
    assert not any(plan.tag in name for name in after.tables | after.links | after.cgroups)
    if after != before:
        wait_until_free()  # another cluster may have come at once
    assert snapshot() == before
    assert not paths.run_dir(name).exists()


@pytest.mark.usefixtures("real_nodes_possible")
def test_the_next_cluster_starts_after_a_crash_without_a_down_in_between() -> None:
    name = f"e2e-again-{os.getpid()}"
    with real_nodes(name) as running:
        kill_all(made_busy(running))
        # What the crash left still holds the machine, so nobody else can come in between.
        second = made_busy(clusters.up(name, nodes="real", use_given=False))
        k8s = Kubernetes(second.kubeconfig)
        assert {pod["metadata"]["name"] for pod in k8s.list("Pod")} == {"fast", "standard"}
        k8s.close()
    assert not clusters.down(name)
