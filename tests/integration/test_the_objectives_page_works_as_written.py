"""The commands of docs/how-to/scale-by-objectives.md, run as they stand, on a tier whose pods tell of a load."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.live import replicas, tier, wait_condition, wait_ready
from tests.support.documents import ROOT, run_story
from tests.support.kubernetes import Kubernetes
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

NAME = "llama-standard"
"""The tier of the page."""
RATE = 20.0
"""Requests per second: more than two replicas take with the promise of the page."""


def test_the_objectives_page_works_as_written(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess", tmp_path: Path
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = cluster.environ() | {"KUBECONFIG": str(k8s.kubeconfig)}
    with played_engines(k8s) as engines:
        engines.rates[NAME] = RATE
        k8s.apply(tier(NAME, replicas=2))
        wait_ready(k8s, NAME)
        said = run_story(
            "objectives", tmp_path, environment, {"--namespace serving": f"--namespace {k8s.namespace}"}
        )
        eventually(lambda: replicas(k8s, NAME) >= 3, "Auto acts on what was recommended")
        wait_condition(k8s, "ScalingActive", "True", name=NAME)
        wait_condition(k8s, "ObjectivesMet", "True", "ObjectivesKept", name=NAME)
    assert re.search(r"Message: +\d replicas .* \(ready=\d .* demand=\S+ .* holds=\S+\)", said)
    assert "of the last hour's requests met all objectives" in said
    assert "created (server dry run)" in said
    scaling = k8s.must_get("InferenceTier", NAME)["spec"]["scaling"]
    assert (scaling["mode"], scaling["priority"]) == ("Auto", 100)
