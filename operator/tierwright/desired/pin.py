"""Decides which engine image stays in use while the user's spec does not change, whatever a newer release defaults to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierwright.desired.labels import (
    ENGINE_IMAGE_ANNOTATION,
    ENGINE_VERSION_ANNOTATION,
    POD_SPEC_HASH_ANNOTATION,
)


@dataclass(frozen=True)
class PinnedEngine:
    """What the annotations of the live Deployment say."""

    image: str
    version: str | None
    pod_spec_hash: str


def pinned_engine(live_deployment: Mapping[str, Any] | None) -> PinnedEngine | None:
    """The engine that a live Deployment runs; None when there is none, or it does not say so."""
    metadata = (live_deployment or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    image = annotations.get(ENGINE_IMAGE_ANNOTATION)
    pod_spec_hash = annotations.get(POD_SPEC_HASH_ANNOTATION)
    if not image or not pod_spec_hash:
        return None
    return PinnedEngine(image, annotations.get(ENGINE_VERSION_ANNOTATION), pod_spec_hash)
