"""`make cluster-status` says how to start a cluster, or names daemons, nodes and kubeconfig; a dead daemon shows."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.kwok import nodes as kwok

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration

ROOT: Final = Path(__file__).resolve().parents[2]
DAEMONS: Final = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
LINE: Final = re.compile(r"^(\S+) +(running|DEAD) +(\d+)  (\S+\.log)$", re.MULTILINE)


def cluster_status(cache: Path) -> subprocess.CompletedProcess[str]:
    """`make cluster-status` on a machine with this cache, whose virtual environment is as it should be."""
    environ = {**os.environ, "TIERWRIGHT_CACHE": str(cache)}
    for variable in ("KUBECONFIG", "MAKEFLAGS", "MAKELEVEL"):
        environ.pop(variable, None)
    return subprocess.run(
        ["make", "--no-print-directory", "--old-file=.venv/.stamp", "cluster-status"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def cache(cluster: "Cluster", tmp_path: Path) -> Path:
    """A cache in which the tests' cluster is called dev, as the one of `make cluster-up` is."""
    copied = tmp_path / "clusters" / "dev"
    shutil.copytree(cluster.run_dir / "processes", copied / "processes")
    for file in ("cluster.json", "control-plane.json"):
        shutil.copy(cluster.run_dir / file, copied / file)
    return tmp_path


def test_without_a_cluster_it_says_how_to_start_one(tmp_path: Path) -> None:
    done = cluster_status(tmp_path)
    assert done.stdout == (
        "no cluster 'dev' runs; start it with: .venv/bin/python -m dev.cluster up --name dev\n"
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "to look leaves nothing behind"


def test_of_a_running_cluster_it_names_daemons_version_kubeconfig_and_nodes(
    cluster: "Cluster", cache: Path
) -> None:
    done = cluster_status(cache)
    assert done.returncode == 0, done.stderr
    found = {name: (state, int(pid), log) for name, state, pid, log in LINE.findall(done.stdout)}
    assert found.keys() >= DAEMONS
    for daemon in clusters.daemons(cluster.name):
        assert found[daemon.name] == ("running", daemon.pid, daemon.log)
    lines = done.stdout.splitlines()
    assert f"cluster dev: Kubernetes {cluster.version}, nodes: kwok" in lines
    assert f"kubeconfig: {cluster.kubeconfig}" in lines
    for node in kwok.default_nodes():
        assert re.search(rf"^  {node.pool.node_name(node.number)} +Ready$", done.stdout, re.MULTILINE)
    assert "pods are played here" in done.stdout


def test_a_daemon_that_died_shows_and_the_cluster_counts_as_none(cache: Path) -> None:
    record = cache / "clusters" / "dev" / "processes" / "kube-scheduler.json"
    daemon = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**daemon, "began": "long ago"}), encoding="utf-8")
    done = cluster_status(cache)
    states = {name: state for name, state, _, _ in LINE.findall(done.stdout)}
    assert states.pop("kube-scheduler") == "DEAD"
    assert set(states.values()) == {"running"}
    assert "no cluster 'dev' runs; start it with:" in done.stdout
    assert done.returncode != 0
