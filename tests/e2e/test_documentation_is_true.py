"""What the documentation tells a reader to type works on real nodes, with the image that the reader has built."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster import cluster as clusters
from dev.demo.install import ENGINE_IMAGE, OPERATOR_IMAGE
from tests.e2e.real_cluster import RealCluster, probe_pod
from tests.support.documents import ROOT, blocks, run_story, stories
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

ENDED = ("Succeeded", "Failed")
TOLD = ("quickstart", "gated", "replicas", "batch", "caches", "remove")
"""All stories that need a cluster, in an order in which a reader could follow them."""
TOLD_ELSEWHERE = {"plan", "objectives"}
"""By tests/integration: one needs no cluster, the other one whose pods tell whatever load the test wants."""


def quickstart_tier() -> dict[str, Any]:
    """The tier that the quickstart has its reader write, with the engine simulator in place of vLLM and its weights."""
    (first, *_) = [each for each in blocks(ROOT / "docs/quickstart.md") if each.language == "yaml"]
    tier: dict[str, Any] = yaml.safe_load(first.text)
    tier["spec"]["model"]["source"] = "file:///models/llama-3.1-8b"
    tier["spec"]["engine"] |= {"image": ENGINE_IMAGE, "version": "0.32.0"}
    tier["spec"]["engine"]["env"] = [{"name": "ENGINE_SIM_START_SECONDS", "value": "1"}]
    tier["spec"]["hardware"]["resources"] = {"cpu": "100m", "memory": "512Mi", "sharedMemory": "64Mi"}
    tier["spec"]["rollout"] = {"drainTimeout": "5s"}
    return tier


@pytest.fixture(scope="module")
def reader(
    real_cluster: RealCluster, own_images: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Mapping[str, str]]:
    """Folder and environment of somebody who follows the documentation: images are built, the tier is written."""
    running = clusters.attach(real_cluster.run_dir.name)
    folder = tmp_path_factory.mktemp("reader")
    (folder / "charts").symlink_to(ROOT / "charts")
    (folder / "tier.yaml").write_text(yaml.safe_dump(quickstart_tier()), encoding="utf-8")
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    _ = running.helm  # puts helm beside kubectl, first on the reader's PATH
    return folder, running.environ() | {"REPOSITORY": repository, "TAG": tag, "HF_TOKEN": "not-a-token"}


NO_INSTALLER = """
import importlib.util, os, subprocess
import tierwright.control.wiring  # the operator whole, kopf with it
print("user", os.getuid())
found = [name for name in ("pip", "setuptools", "wheel", "ensurepip") if importlib.util.find_spec(name)]
for python in ("/usr/local/bin/python3", "/usr/bin/python3"):
    try:
        found += [python] if subprocess.run([python, "-m", "pip", "--version"]).returncode == 0 else []
    except FileNotFoundError:
        pass
raise SystemExit(f"installers: {found}" if found else 0)
"""


def test_the_image_runs_as_any_user_and_holds_no_installer(
    reader: tuple[Path, Mapping[str, str]], k8s: Kubernetes
) -> None:
    pod = probe_pod("image", command=["python", "-c", NO_INSTALLER])
    pod["spec"] |= {"restartPolicy": "Never"}
    pod["spec"]["securityContext"]["runAsUser"] = 1234567
    pod["spec"]["containers"][0]["image"] = OPERATOR_IMAGE
    k8s.create(pod)
    eventually(lambda: k8s.must_get("Pod", "image")["status"]["phase"] in ENDED, "the pod has ended")
    assert k8s.must_get("Pod", "image")["status"]["phase"] == "Succeeded", k8s.must_get("Pod", "image")[
        "status"
    ]


def test_every_story_is_told() -> None:
    assert set(TOLD) | TOLD_ELSEWHERE == stories()


def test_a_reader_gets_from_nothing_to_a_tier_that_scales_rolls_and_is_removed(
    reader: tuple[Path, Mapping[str, str]],
) -> None:
    folder, environment = reader
    said = {name: run_story(name, folder, environment) for name in TOLD}
    assert "llama-standard.serving.svc:8000" in said["quickstart"]
    assert (
        'customresourcedefinition.apiextensions.k8s.io "inferencetiers.tierwright.dev" deleted'
        in said["remove"]
    )
