"""`make demo CLUSTER=given`: installs on the cluster that KUBECONFIG names, takes all away, and touches nothing else.

The requests need containers: the whole story is told on real nodes by the end-to-end tests.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.programs import source
from dev.demo import __main__ as demo
from dev.demo import given, story
from dev.demo.console import Console
from dev.demo.install import OPERATOR_IMAGE
from dev.demo.kubectl import Tools
from dev.demo.without_nodes import operator_beside
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

IMAGES: Final = (OPERATOR_IMAGE, "localhost/example/engine:dev")
MakeDemo = Callable[[], int]


@pytest.fixture(scope="module")
def theirs() -> Iterator[Cluster]:
    """Somebody's cluster, without Tierwright."""
    source.kwok()
    source.programs()
    with clusters.cluster(f"theirs-{os.getpid()}", use_given=False) as running:
        yield running


@pytest.fixture
def user(theirs: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """Its administrator, whose KUBECONFIG names it; whatever a test installed is gone afterwards."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_bytes(theirs.kubeconfig.read_bytes())
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    found = Kubernetes(theirs.kubeconfig, story.NAME)
    yield found
    found.close()


@pytest.fixture
def make_demo(monkeypatch: pytest.MonkeyPatch) -> MakeDemo:
    """`make demo CLUSTER=given`."""
    monkeypatch.setattr(sys, "argv", ["dev.demo", "--given"])
    return demo.main


def brought(user: Kubernetes) -> list[str]:
    """What of the demo is on the cluster."""
    user.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    names = [("Namespace", story.NAME), ("Namespace", story.SYSTEM), ("CustomResourceDefinition", given.CRD)]
    names += [(kind, "tierwright-operator") for kind in ("ClusterRole", "ClusterRoleBinding")]
    return [f"{kind} {name}" for kind, name in names if user.get(kind, name)]


def test_both_tiers_become_ready_and_everything_is_taken_away(
    theirs: Cluster, user: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert brought(user) == []
    with given.installed(Console(3), story.NAME, story.SYSTEM, IMAGES, keep=False) as tools:
        assert len(brought(user)) == 5
        # kwok plays the operator's pod, so that one runs beside the cluster.
        with operator_beside(tools, tmp_path):
            for speed in story.SPEEDS:
                manifest = given.anywhere((story.TIERS / f"{speed}.yaml").read_text(encoding="utf-8"))
                tools.kubectl("apply", "-f", "-", stdin=manifest)
            tools.kubectl("wait", "--for=condition=Ready", "itier", "--all", "--timeout=120s")
            assert len(user.list("InferenceTier")) == len(story.SPEEDS)
            assert user.list("PersistentVolumeClaim") == [], "a foreign cluster is asked for no volume"
    eventually(lambda: brought(user) == [], "all that the demo brought is gone")
    shown = capsys.readouterr().out
    assert f"Kubernetes {theirs.version}" in shown
    for image in IMAGES:
        assert image in shown
    assert "docs/how-to/develop-on-kind.md" in shown


def test_a_story_that_breaks_off_takes_all_away_too(user: Kubernetes) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        given.installed(Console(3), story.NAME, story.SYSTEM, IMAGES, keep=False),
    ):
        raise KeyboardInterrupt
    eventually(lambda: brought(user) == [], "all that the demo brought is gone")


def test_what_was_kept_is_told_and_a_second_demo_leaves_it_alone(
    theirs: Cluster, user: Kubernetes, make_demo: MakeDemo, capsys: pytest.CaptureFixture[str]
) -> None:
    with given.installed(Console(2), story.NAME, story.SYSTEM, IMAGES, keep=True):
        pass
    try:
        shown = capsys.readouterr().out
        assert f"left running: namespaces {story.NAME} and {story.SYSTEM}" in shown
        assert f"kubectl delete namespace {story.NAME} && helm uninstall tierwright" in shown
        before = brought(user)
        assert len(before) == 5
        assert make_demo() == 1
        assert "this cluster has Tierwright, and the demo leaves that alone" in capsys.readouterr().err
        assert brought(user) == before
    finally:
        at = Tools(theirs.kubectl, theirs.helm, theirs.kubeconfig, story.NAME)
        given.take_away(at, story.NAME, story.SYSTEM)
    eventually(lambda: brought(user) == [], "all that the demo brought is gone")


def test_a_namespace_of_the_same_name_is_never_removed(
    user: Kubernetes, make_demo: MakeDemo, capsys: pytest.CaptureFixture[str]
) -> None:
    user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": story.NAME}})
    try:
        assert make_demo() == 1
        assert f"the namespace {story.NAME} is there already" in capsys.readouterr().err
        assert brought(user) == [f"Namespace {story.NAME}"]
    finally:
        user.delete("Namespace", story.NAME)
    eventually(lambda: brought(user) == [], "the namespace is gone")


@pytest.mark.parametrize("kubeconfig", [None, "", "no-such-file"])
def test_without_a_cluster_that_answers_nothing_is_started(
    kubeconfig: str | None,
    make_demo: MakeDemo,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if kubeconfig is None:
        monkeypatch.delenv("KUBECONFIG", raising=False)
    else:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / kubeconfig) if kubeconfig else "")
    assert make_demo() == 1
    complaint = capsys.readouterr().err
    assert "KUBECONFIG names no cluster that answers" in complaint
    assert "Traceback" not in complaint
