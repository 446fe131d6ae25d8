"""Nothing is built while another cluster holds this machine's one place for real nodes; it is named instead."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.machine.processes import ComponentError
from dev.cluster.network import slot
from dev.cluster.network.commands import NetworkError
from dev.cluster.nodes import requirements
from dev.cluster.programs import source
from dev.demo import __main__ as demo
from dev.demo import story
from dev.demo.console import Console


def built(*_: object, **__: object) -> None:
    """What must not be reached."""
    raise AssertionError("something was built")


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run folder of a cluster that holds the place, in a cache of its own; building anything fails the test."""
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path / "mine"))
    run_dir = tmp_path / "theirs" / "clusters" / "other"
    run_dir.mkdir(parents=True)

    def output(argv: Sequence[str]) -> str:
        if argv[-1] == "tables":
            return "table inet tw01beef\n"
        return json.dumps({"nftables": [{"rule": {"comment": slot.comment(run_dir)}}]})

    monkeypatch.setattr(slot, "output", output)
    monkeypatch.setattr(requirements, "provide", lambda *_: [])
    monkeypatch.setattr(demo, "provide", list)
    monkeypatch.setattr(source, "programs", built)
    monkeypatch.setattr(story, "build_operator_image", built)
    monkeypatch.setattr("sys.argv", ["demo"])
    return run_dir


def test_the_demo_names_the_other_cluster(other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 1
    told = capsys.readouterr().err
    assert "cluster other has left its network behind" in told
    assert f"TIERWRIGHT_CACHE={other.parents[1]} .venv/bin/python -m dev.cluster down --name other" in told


def test_a_cluster_with_real_nodes_is_refused(other: Path) -> None:
    with pytest.raises(NetworkError, match="cluster other"):
        clusters.up("mine", nodes="real", use_given=False)
    assert not other.parents[1].joinpath("clusters", "mine").exists()


def test_two_demos_at_once_do_not_share_a_cluster_that_the_first_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    theirs = clusters.Cluster("demo", tmp_path, tmp_path / "kubeconfig", "v1.36.3", "real", None)
    monkeypatch.setattr(clusters, "_load", lambda _: theirs)
    monkeypatch.setattr(clusters, "down", built)
    with (
        pytest.raises(ComponentError, match="runs already, started by somebody else"),
        story._cluster(Console(steps=1), keep=False),
    ):
        built()
    assert clusters.up("demo", nodes="real", use_given=False) == theirs


def test_what_the_dead_cluster_of_the_same_name_left_is_no_hindrance(other: Path) -> None:
    slot.require_free(own=other)


def test_a_demo_that_was_kept_is_named_with_how_to_look_around_and_how_to_end_it(
    other: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clusters, "attach", lambda _: SimpleNamespace(kubeconfig=Path("/kept/admin.yaml")))
    assert demo.main() == 1
    told = capsys.readouterr().err
    assert "cluster demo runs already" in told
    assert 'eval "$(.venv/bin/python -m dev.cluster env --name demo)"' in told
    assert "down --name demo" in told
