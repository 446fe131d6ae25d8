"""After `down` the machine is as it was: no process, mount, cgroup, link, route, rule, sysctl or file is left."""

import contextlib
import os
import signal

import pytest

from dev.cluster import cluster as clusters
from dev.cluster import paths, processes
from dev.cluster.cgroups import processes as processes_in_cgroups
from dev.cluster.network import load_network
from tests.e2e.machine import processes_of, snapshot, wait_until_free
from tests.e2e.real_cluster import RealCluster, claim, probe_pod, ready
from tests.support.kubernetes import Kubernetes

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def busy_cluster(name: str) -> RealCluster:
    """A cluster whose nodes run a pod each, one with a volume."""
    running = clusters.up(name, nodes="real", use_given=False)
    cluster = RealCluster(running.run_dir, running.kubeconfig, running.kubectl)
    cluster.load_probe()
    k8s = Kubernetes(cluster.kubeconfig)
    k8s.create(claim("data", "standard", "ReadWriteOnce"))
    k8s.create(probe_pod("fast", "fast", volumes={"data": "/data"}))
    k8s.create(probe_pod("standard", "standard"))
    ready(k8s, "fast", "standard")
    k8s.close()
    return cluster


@pytest.mark.usefixtures("real_nodes_possible")
@pytest.mark.parametrize("end", ["in order", "everything killed", "only the daemons of one node killed"])
def test_down_leaves_the_machine_as_it_was(end: str) -> None:
    name = f"e2e-down-{os.getpid()}"
    wait_until_free()
    before = snapshot()
    try:
        cluster = busy_cluster(name)
        during = snapshot()
        assert during.links > before.links
        assert during.tables > before.tables
        assert during.cgroups > before.cgroups
        assert during.sysctls != before.sysctls
        assert processes_of(cluster.run_dir)
        plan = load_network(cluster.run_dir)
        assert plan is not None
        if end != "in order":
            for process in [*processes.load(cluster.run_dir), *processes.strays(cluster.run_dir)]:
                if end == "everything killed" or process.name.endswith("-fast-1"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
            # The containers go on without their keepers: that is what must be found.
            assert processes_in_cgroups(plan.tag)
    finally:
        clusters.down(name)
    assert processes_of(cluster.run_dir) == []
    assert snapshot() == before
    assert not paths.run_dir(name).exists()


@pytest.mark.usefixtures("real_nodes_possible")
def test_the_next_cluster_starts_after_a_crash_and_down_of_none_says_so() -> None:
    name = f"e2e-again-{os.getpid()}"
    wait_until_free()
    try:
        first = busy_cluster(name)
        for process in [*processes.load(first.run_dir), *processes.strays(first.run_dir)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        # No `down` in between: `up` clears what the crash left, and pods of the old cluster do not come back.
        second = busy_cluster(name)
        k8s = Kubernetes(second.kubeconfig)
        assert {pod["metadata"]["name"] for pod in k8s.list("Pod")} == {"fast", "standard"}
        k8s.close()
        assert clusters.down(name)
    finally:
        clusters.down(name)
    assert not clusters.down(name)
