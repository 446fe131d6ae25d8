"""The replicas that a workload starts with follow suspend, mode and bounds."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, manifest, tier


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        ({}, 1),
        ({"replicas": 3}, 3),
        ({"replicas": 0}, 0),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 3, "scaling": {"mode": "Recommend", "maxReplicas": 2}}, 3),
        ({"replicas": 3, "scaling": {"mode": "Manual", "maxReplicas": 2}}, 3),
        ({"replicas": 3, "scaling": {"mode": "Auto", "maxReplicas": 2}}, 2),
        ({"scaling": {"mode": "Auto", "minReplicas": 2, "maxReplicas": 4}}, 2),
        ({"replicas": 0, "scaling": {"mode": "Auto", "maxReplicas": 4}}, 1),
        ({"replicas": 0, "scaling": {"mode": "Auto", "minReplicas": 0, "maxReplicas": 4}}, 0),
        ({"replicas": 5, "scaling": {"mode": "Auto"}}, 5),
        (
            {"replicas": 3, "suspend": True, "scaling": {"mode": "Auto", "minReplicas": 2, "maxReplicas": 4}},
            0,
        ),
    ],
)
def test_start_value(spec: dict[str, Any], replicas: int) -> None:
    assert manifest(bundle_of(tier(**spec)), "Deployment")["spec"]["replicas"] == replicas


def test_a_suspended_tier_keeps_its_other_children() -> None:
    kinds = [child.manifest["kind"] for child in bundle_of(tier()).children]
    assert [child.manifest["kind"] for child in bundle_of(tier(suspend=True)).children] == kinds
