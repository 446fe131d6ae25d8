"""`make demo CLUSTER=given` from its first step to its last: real answers at both speeds, and the cluster as it was before."""

import re
import sys
from pathlib import Path

import pytest

from dev.cluster.images.image import load_image
from dev.demo import __main__ as demo
from dev.demo import given, story
from dev.demo.install import build_operator_image
from dev.demo.model_image import build_model_image
from tests.e2e.real_cluster import RealCluster
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

STEP = re.compile(r"^\[(\d)/8\] (.+)$", re.MULTILINE)


@pytest.mark.timeout(1800)  # the worker's image may have to be built first
def test_the_whole_story_is_told_and_the_cluster_is_left_as_it_was(
    real_cluster: RealCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    user = Kubernetes(real_cluster.kubeconfig)
    before = {each["metadata"]["name"] for each in user.list("Namespace")}
    for image in (build_operator_image(), build_model_image()):
        load_image(image, real_cluster.run_dir)
    theirs = tmp_path / "config"
    theirs.write_bytes(real_cluster.kubeconfig.read_bytes())
    monkeypatch.setenv("KUBECONFIG", str(theirs))
    monkeypatch.setattr(sys, "argv", ["dev.demo", "--given"])
    capsys.readouterr()
    status = demo.main()
    shown = capsys.readouterr()
    assert status == 0, f"{shown.out}\n{shown.err}"
    assert [int(number) for number, _ in STEP.findall(shown.out)] == list(range(1, 9))
    assert "fast / standard =" in shown.out, "both speeds answered, with the same text"
    assert "--max-num-seqs" in shown.out
    for speed in story.SPEEDS:
        # While a node is busy, the pod that was replaced may still be counted.
        assert re.search(rf"^ +smollm2-{speed} .* [12]/1 ", shown.out, re.MULTILINE), shown.out
    assert shown.out.rstrip().splitlines()[-1].startswith("The demo is over.")

    def as_before() -> bool:
        user.list("Node")  # a read opens the connection again that the server closed while it was idle
        names = {each["metadata"]["name"] for each in user.list("Namespace")}
        return names == before and user.get("CustomResourceDefinition", given.CRD) is None

    eventually(as_before, "the cluster is as it was before", 180)
    user.close()
