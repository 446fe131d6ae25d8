"""A cluster whose own files were cut short or overwritten counts as not running; `up` and `down` then clear it away."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from dev.cluster import cluster, paths
from dev.cluster.__main__ import main
from dev.cluster.control_plane import plane as control_plane
from dev.cluster.machine import processes

STATE = {"kubeconfig": "/k", "version": "v1.36.3", "nodes": "none"}
BROKEN = ["", "{", "[]", "{}", "5", '{"kubeconfig": 5, "version": "v1", "nodes": "none"}']


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    folder = paths.run_dir("t")
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_state_is_no_cluster_and_no_traceback(
    run_dir: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (run_dir / "cluster.json").write_text(text)
    assert main(["env", "--name", "t"]) == 1
    assert capsys.readouterr().err.startswith("error: no cluster 't' runs; start it with")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"a": 1}', '{"run_dir": 1, "bin_dir": 2}'])
def test_a_broken_control_plane_is_none(run_dir: Path, text: str) -> None:
    (run_dir / "control-plane.json").write_text(text)
    assert control_plane.load("t") is None


def test_a_cluster_with_daemons_that_lost_its_control_plane_is_not_taken_for_a_given_one(
    run_dir: Path,
) -> None:
    (run_dir / "cluster.json").write_text(json.dumps(STATE))
    assert cluster.attach("t").plane is None
    record = run_dir / "processes" / "etcd.json"
    record.parent.mkdir()
    record.write_text(json.dumps(asdict(processes.Process("etcd", os.getpid(), "another boot", ""))))
    with pytest.raises(LookupError, match="no cluster 't' runs"):
        cluster.attach("t")
