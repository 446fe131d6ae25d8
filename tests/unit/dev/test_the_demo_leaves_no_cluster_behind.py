"""A demo that fails or is interrupted takes down the cluster that it started, at whatever moment, and no other."""

from pathlib import Path

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.machine.processes import ComponentError
from dev.demo import story
from dev.demo.console import Console
from dev.demo.kubectl import CommandError


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the clusters that were taken down."""
    names: list[str] = []
    monkeypatch.setattr(clusters, "down", names.append)
    return names


def starts(monkeypatch: pytest.MonkeyPatch, folder: Path, exit_status: int) -> None:
    """The cluster starts, and its kubectl ends with this status."""
    for program in ("kubectl", "helm"):
        file = folder / "tools" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\nexit {exit_status}\n", encoding="utf-8")
        file.chmod(0o755)
    running = Cluster(story.NAME, folder, folder / "kubeconfig", "v1.37.0", "real", None)
    monkeypatch.setattr(Cluster, "kubectl", folder / "tools" / "kubectl")
    monkeypatch.setattr(Cluster, "helm", folder / "tools" / "helm")
    monkeypatch.setattr(clusters, "up", lambda *_, **__: running)


def test_a_first_look_that_fails_ends_the_cluster(
    ended: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts(monkeypatch, tmp_path, exit_status=1)
    with pytest.raises(CommandError, match="get nodes"), story._cluster(Console(1), keep=True):
        raise AssertionError("the story went on")
    assert ended == [story.NAME]


@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupted_story_ends_the_cluster_even_if_it_was_to_be_kept(
    keep: bool, ended: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts(monkeypatch, tmp_path, exit_status=0)
    with pytest.raises(KeyboardInterrupt), story._cluster(Console(2), keep):
        raise KeyboardInterrupt
    assert ended == [story.NAME]


@pytest.mark.parametrize(("keep", "names"), [(True, []), (False, [story.NAME])])
def test_a_story_that_was_told_to_its_end_keeps_what_it_was_asked_to_keep(
    keep: bool, names: list[str], ended: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts(monkeypatch, tmp_path, exit_status=0)
    with story._cluster(Console(2), keep):
        pass
    assert ended == names


def test_somebody_elses_cluster_of_the_same_name_stays(
    ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(*_: object, **__: object) -> Cluster:
        raise ComponentError("cluster demo runs already, started by somebody else")

    monkeypatch.setattr(clusters, "up", up)
    with pytest.raises(ComponentError), story._cluster(Console(1), keep=False):
        raise AssertionError("the story went on")
    assert ended == []
