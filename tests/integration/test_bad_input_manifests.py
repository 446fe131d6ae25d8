"""Manifests that are wrong: kubectl says what and where, nothing of them is stored, and what stands beside them works."""

import copy
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from dev.cluster.api import MERGE_PATCH
from tests.integration.live import NAME, Object, apply_ready, tier, wait_ready
from tests.support.kubernetes import Kubernetes

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]


def kubectl_apply(cluster: "Cluster", k8s: Kubernetes, file: Path) -> subprocess.CompletedProcess[str]:
    """What a user types."""
    command = [str(cluster.kubectl), "--kubeconfig", str(k8s.kubeconfig), "-n", k8s.namespace]
    return subprocess.run([*command, "apply", "-f", str(file)], capture_output=True, text=True, timeout=60)


def with_fields(manifest: Object, **engine: object) -> Object:
    """A copy with more fields of the engine."""
    copied = copy.deepcopy(manifest)
    copied["spec"]["engine"] |= engine
    return copied


def test_text_that_is_no_yaml_stores_nothing(k8s: Kubernetes, cluster: "Cluster", tmp_path: Path) -> None:
    file = tmp_path / "tier.yaml"
    file.write_text(yaml.safe_dump(tier()) + "  speed: [fast\n")
    said = kubectl_apply(cluster, k8s, file)
    assert said.returncode != 0
    assert "tier.yaml" in said.stderr
    assert k8s.list("InferenceTier") == []


def test_one_wrong_document_names_all_its_errors_and_harms_no_other(
    k8s: Kubernetes, cluster: "Cluster", tmp_path: Path
) -> None:
    wrong = tier("wrong", speed="wrong")
    wrong["spec"]["scaling"] = {"minReplicas": 3, "maxReplicas": 2}
    wrong["spec"]["engine"] |= {"tensorParallel": 4}
    file = tmp_path / "tiers.yaml"
    file.write_text(yaml.safe_dump_all([wrong, tier()]))
    said = kubectl_apply(cluster, k8s, file)
    assert said.returncode != 0
    assert "minReplicas is above maxReplicas" in said.stderr
    assert "spec.engine" in said.stderr or "spec.hardware" in said.stderr
    wait_ready(k8s)
    assert [each["metadata"]["name"] for each in k8s.list("InferenceTier")] == [NAME]


def test_misspelt_field_is_refused_by_kubectl_and_pruned_by_the_server(
    k8s: Kubernetes, cluster: "Cluster", tmp_path: Path
) -> None:
    misspelt = with_fields(tier(), batchsize=4)
    file = tmp_path / "tier.yaml"
    file.write_text(yaml.safe_dump(misspelt))
    said = kubectl_apply(cluster, k8s, file)
    assert said.returncode != 0
    assert 'unknown field "spec.engine.batchsize"' in said.stderr
    assert k8s.list("InferenceTier") == []
    # A client that does not ask for strictness: the field goes, the tier serves.
    apply_ready(k8s, tier())
    path = f"{k8s.path('InferenceTier', NAME)}?fieldValidation=Ignore"
    k8s._api.request("PATCH", path, {"spec": {"engine": {"batchsize": 4}, "replicas": 2}}, MERGE_PATCH)
    assert "batchsize" not in k8s.must_get("InferenceTier", NAME)["spec"]["engine"]
    wait_ready(k8s)
    assert k8s.must_get("InferenceTier", NAME)["status"]["ready"] == "2/2"


def test_edit_that_breaks_a_rule_leaves_the_tier_and_its_pods_as_they_are(
    k8s: Kubernetes, cluster: "Cluster", tmp_path: Path
) -> None:
    apply_ready(k8s, tier())
    before = k8s.must_get("InferenceTier", NAME)["metadata"]["generation"]
    pods = {pod["metadata"]["uid"] for pod in k8s.list("Pod")}
    for field, wrong in (("speed", tier(speed="slow")), ("replicas", tier(replicas=-1))):
        file = tmp_path / "tier.yaml"
        file.write_text(yaml.safe_dump(wrong))
        said = kubectl_apply(cluster, k8s, file)
        assert said.returncode != 0
        assert f"spec.{field}" in said.stderr
    assert k8s.must_get("InferenceTier", NAME)["metadata"]["generation"] == before
    assert {pod["metadata"]["uid"] for pod in k8s.list("Pod")} == pods
