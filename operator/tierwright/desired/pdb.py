"""Decides the PodDisruptionBudget: one replica at a time, and never a drain that a broken pod blocks."""

from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.labels import selector_labels
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name


def pod_disruption_budget(tier: InferenceTier) -> dict[str, Any]:
    """The budget; with minAvailable 1 a tier of one replica would block node drains for ever."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(tier, child_name(tier.metadata.name)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector_labels(tier)},
        },
    }
