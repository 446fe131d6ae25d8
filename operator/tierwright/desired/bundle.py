"""Lists every object that one tier wants, in the order in which they are applied: read this file first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.tier import InferenceTier
from tierwright.desired.pin import PinnedEngine, pinned_engine
from tierwright.hardware.refusal import Refusal

__all__ = [
    "OWNED_KINDS",
    "Bundle",
    "BundleContext",
    "Child",
    "PinnedEngine",
    "Refusal",
    "desired_bundle",
    "pinned_engine",
]

OWNED_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "Deployment"),
)
"""Every (apiVersion, kind) that a bundle may hold."""


@dataclass(frozen=True)
class BundleContext:
    """What the children depend on beside the tier itself."""

    pinned: PinnedEngine | None = None
    """The engine that the live Deployment runs, from ``pinned_engine``."""


@dataclass(frozen=True)
class Child:
    """One object that must exist."""

    manifest: dict[str, Any]
    retained: bool = False
    """Outlives the tier: it has no owner reference and is never pruned."""


@dataclass(frozen=True)
class Bundle:
    """Everything that one tier wants."""

    children: tuple[Child, ...]
    """In apply order; the workload last."""
    workload: tuple[str, str]
    """Kind and name of the object that runs the pods; its manifest carries ``spec.replicas``."""
    endpoint: str
    """Host and port inside the cluster, such as ``llama-fast.serving.svc:8000``."""
    selector: str
    """Label selector of the pods, in the form that the scale subresource reads."""
    engine_image: str
    engine_version: str | None
    replicas: int
    """Replicas to start with, after suspend, mode and bounds."""
    warnings: tuple[str, ...]
    """What is allowed but likely not meant."""


def desired_bundle(tier: InferenceTier, context: BundleContext) -> Bundle | Refusal:
    """All children of the tier, or why there can be none."""
    raise NotImplementedError
