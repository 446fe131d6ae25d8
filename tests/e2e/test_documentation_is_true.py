"""What the documentation tells a reader to type works, in the order in which it is told, on real nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster import cluster as clusters
from dev.cluster.images import build_image, load_image
from tests.e2e.real_cluster import RealCluster
from tests.support.documents import ROOT, blocks, run_story, stories

pytestmark = pytest.mark.e2e

OPERATOR_IMAGE = "localhost/tierwright/operator:dev"
ENGINE_IMAGE = "localhost/tierwright/engine-sim:dev"
TOLD = ("quickstart", "gated", "replicas", "batch", "caches", "remove")
"""All stories, in an order in which a reader could follow them."""


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
    real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Mapping[str, str]]:
    """Folder and environment of somebody who follows the documentation: images are built, the tier is written."""
    running = clusters.attach(real_cluster.run_dir.name)
    for image in (
        build_image(OPERATOR_IMAGE, ROOT, target="operator"),
        build_image(ENGINE_IMAGE, ROOT, dockerfile=ROOT / "dev/engine_sim/Dockerfile"),
    ):
        load_image(image, running.run_dir)
    folder = tmp_path_factory.mktemp("reader")
    (folder / "charts").symlink_to(ROOT / "charts")
    (folder / "tier.yaml").write_text(yaml.safe_dump(quickstart_tier()), encoding="utf-8")
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    _ = running.helm  # puts helm beside kubectl, first on the reader's PATH
    return folder, running.environ() | {"REPOSITORY": repository, "TAG": tag, "HF_TOKEN": "not-a-token"}


def test_every_story_is_told() -> None:
    assert set(TOLD) == stories()


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
