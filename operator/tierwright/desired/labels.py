"""Decides the labels, the selector and the annotations of children; the selector never follows the labels."""

from typing import Final

from tierwright.api.tier import GROUP, InferenceTier
from tierwright.desired.names import label_value

TIER_LABEL: Final = f"{GROUP}/tier"
MODEL_LABEL: Final = f"{GROUP}/model"
SPEED_LABEL: Final = f"{GROUP}/speed"
MODEL_NAME_ANNOTATION: Final = f"{GROUP}/model-name"
POD_SPEC_HASH_ANNOTATION: Final = f"{GROUP}/pod-spec-hash"
ENGINE_IMAGE_ANNOTATION: Final = f"{GROUP}/engine-image"
ENGINE_VERSION_ANNOTATION: Final = f"{GROUP}/engine-version"
COMPILE_CACHE_ANNOTATION: Final = f"{GROUP}/compile-cache"
"""On the Deployment: which programs its template needs, and what came of compiling them beforehand."""


def selector_labels(tier: InferenceTier) -> dict[str, str]:
    """What selects the tier's pods: its name alone, so that no edit of the spec can change it."""
    return {TIER_LABEL: label_value(tier.metadata.name)}


def selector_text(tier_name: str) -> str:
    """The same in the form that the scale subresource reads."""
    return f"{TIER_LABEL}={label_value(tier_name)}"


def child_labels(tier: InferenceTier) -> dict[str, str]:
    """The labels of every child and of the pods; made anew, never copied from the tier."""
    name = label_value(tier.metadata.name)
    return {
        "app.kubernetes.io/name": "inference-tier",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/managed-by": "tierwright",
        "app.kubernetes.io/part-of": "tierwright",
        TIER_LABEL: name,
        MODEL_LABEL: label_value(tier.spec.model.name),
        SPEED_LABEL: tier.spec.speed,
    }


def child_annotations(tier: InferenceTier) -> dict[str, str]:
    """The annotations of every child: names that do not fit into a label."""
    return {MODEL_NAME_ANNOTATION: tier.spec.model.name}
