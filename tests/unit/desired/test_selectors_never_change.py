"""No edit of a tier changes what selects its pods; labels may change, selectors never."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, manifest, pod_template, tier
from tierwright.api.tier import InferenceTier
from tierwright.desired.labels import selector_text

SELECTOR = {"tierwright.dev/tier": "llama-fast"}
EDITS: list[dict[str, Any]] = [
    {"model": {"name": "another/model", "source": "hf://another/model"}},
    {"speed": "standard"},
    {"engine": {"image": "example.com/own:v1.0.0"}},
    {"podTemplate": {"metadata": {"labels": {"team": "search"}}}},
    {"suspend": True},
]


def selectors(wanted: InferenceTier) -> list[dict[str, str]]:
    bundle = bundle_of(wanted)
    spread = pod_template(bundle)["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
    return [
        manifest(bundle, "Deployment")["spec"]["selector"]["matchLabels"],
        manifest(bundle, "Service", "fast")["spec"]["selector"],
        manifest(bundle, "Service", "headless")["spec"]["selector"],
        manifest(bundle, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest(bundle, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        spread,
    ]


@pytest.mark.parametrize("edit", EDITS, ids=[next(iter(edit)) for edit in EDITS])
def test_no_edit_changes_a_selector(edit: dict[str, Any]) -> None:
    assert selectors(tier(**edit)) == [SELECTOR] * 6


def test_the_selector_holds_one_label_so_that_a_release_can_add_labels() -> None:
    bundle = bundle_of(tier())
    labels = pod_template(bundle)["metadata"]["labels"]
    assert len(labels) > 1
    assert manifest(bundle, "Deployment")["spec"]["selector"]["matchLabels"] == SELECTOR
    assert labels.items() >= SELECTOR.items()


def test_labels_selectors_and_template_are_separate_objects() -> None:
    bundle = bundle_of(tier())
    workload = manifest(bundle, "Deployment")
    workload["metadata"]["labels"]["added"] = "later"
    assert "added" not in workload["spec"]["selector"]["matchLabels"]
    assert "added" not in workload["spec"]["template"]["metadata"]["labels"]
    assert "added" not in manifest(bundle, "Service", "fast")["metadata"]["labels"]


def test_labels_and_annotations_of_the_tier_are_never_copied() -> None:
    wanted = tier()
    noisy = wanted.model_copy(
        update={
            "metadata": wanted.metadata.model_copy(
                update={
                    "labels": {"argocd.argoproj.io/instance": "x"},
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                }
            )
        }
    )
    assert bundle_of(noisy) == bundle_of(wanted)


def test_the_scale_subresource_reads_the_same_selector() -> None:
    (label,) = selectors(tier())[0].items()
    assert selector_text(tier().metadata.name) == "=".join(label)
