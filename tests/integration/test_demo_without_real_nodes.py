"""`make demo` where real nodes cannot run: it is told on kwok's nodes, goes or stays as asked, and says what is missing."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from dev.cluster import cluster as clusters
from dev.cluster import paths
from dev.cluster.machine import processes
from dev.cluster.programs import source, tools
from dev.demo import __main__ as demo
from dev.demo import story, without_nodes
from dev.demo.kubectl import CommandError, Tools
from tests.support.kubernetes import Kubernetes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

MISSING: Final = "root is needed for network and mounts; run as root"
STEPS: Final = re.compile(r"^\[(\d)/(\d)\] (.+)$", re.MULTILINE)
Demo = Callable[..., int]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with the programs of the real one, and no cluster: whatever else is called demo on this machine stays."""
    source.kwok()
    source.programs()
    tools.helm()
    for folder in ("bin", "tools"):
        (tmp_path / folder).symlink_to(paths.cache_dir() / folder)
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    yield tmp_path
    clusters.down(story.NAME)


@pytest.fixture
def make_demo(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """`make demo` on a machine that cannot run real nodes."""
    monkeypatch.setattr(demo, "provide", lambda: [MISSING])

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["dev.demo", *words])
        return demo.main()

    return run


def steps(output: str) -> list[str]:
    """The titles of the steps, which are counted to the end."""
    found = STEPS.findall(output)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    assert {int(total) for _, total, _ in found} == {len(found)}
    assert output.count("done in ") == len(found)
    return [title for _, _, title in found]


def test_the_story_is_told_to_its_end_and_nothing_is_left(
    make_demo: Demo, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_demo() == 0
    shown = capsys.readouterr().out
    assert [title.split()[0] for title in steps(shown)] == [
        "Start",
        "Apply",
        "Edit",
        "Delete",
        "What",
        "Clean",
    ]
    assert MISSING in shown
    assert "no container runs, no chat request is answered" in shown
    assert "make demo CLUSTER=given" in shown
    assert "--max-num-seqs" in shown
    for speed in story.SPEEDS:
        assert re.search(rf"^ +smollm2-{speed} .* 1/1 ", shown, re.MULTILINE), (
            "the table shows both tiers ready"
        )
    assert "Not shown: real containers, chat requests, tokens per second." in shown
    assert not paths.run_dir(story.NAME).exists()
    assert processes.strays(paths.run_dir(story.NAME)) == []


def test_a_cluster_that_is_kept_can_be_looked_at_and_a_second_demo_says_so_and_leaves_it(
    make_demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_demo("--keep") == 0
    shown = capsys.readouterr().out
    assert "Clean up" not in steps(shown)
    assert "The demo kept its cluster." in shown
    kept = clusters.attach(story.NAME)
    for command in (
        f"kubectl -n {story.NAME} get itier -o wide",
        f"kubectl -n {story.NAME} describe itier smollm2-fast",
    ):
        assert command in shown
        words = command.split()
        done = subprocess.run(
            [kept.kubectl, *words[1:]], env=kept.environ(), capture_output=True, text=True, check=True
        )
        assert "smollm2-fast" in done.stdout
    user = Kubernetes(kept.kubeconfig, story.NAME)
    before = {each["metadata"]["uid"] for each in user.list("InferenceTier")}
    assert len(before) == len(story.SPEEDS)

    assert make_demo() == 1
    complaint = capsys.readouterr().err
    assert f"cluster {story.NAME} runs already (`make demo KEEP=1` leaves it)" in complaint
    assert f"-m dev.cluster down --name {story.NAME}" in complaint
    assert "Traceback" not in complaint
    user.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    assert {each["metadata"]["uid"] for each in user.list("InferenceTier")} == before
    user.close()
    assert clusters.down(story.NAME)
    with pytest.raises(LookupError):
        clusters.attach(story.NAME)


def test_an_operator_that_does_not_start_ends_the_demo_at_once_and_its_words_are_told(
    make_demo: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIERWRIGHT_RESYNC_SECONDS", "often")
    assert make_demo("--keep") == 1
    complaint = capsys.readouterr().err
    assert "the operator ended with" in complaint
    assert "TIERWRIGHT_RESYNC_SECONDS" in complaint
    assert not paths.run_dir(story.NAME).exists(), "a demo that failed keeps nothing"


def test_an_operator_that_dies_during_the_demo_is_told(own_cache: Path) -> None:
    with clusters.cluster(story.NAME, use_given=False) as running:
        at = Tools(running.kubectl, running.helm, running.kubeconfig, story.NAME)
        beside = without_nodes.operator_beside(at, running.run_dir)
        operator = beside.__enter__()
        operator.kill()
        operator.wait(30)
        with pytest.raises(CommandError, match=r"the operator ended with -9"):
            beside.__exit__(None, None, None)
