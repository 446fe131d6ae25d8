"""Names the tier's kind, the kinds of its children, and all kinds that are watched, with the selector of each."""

from dataclasses import dataclass
from typing import Final

from tierwright.api.tier import GROUP, KIND, PLURAL, VERSION
from tierwright.desired.labels import TIER_LABEL
from tierwright.kube.resources import (
    DEPLOYMENT,
    HPA,
    JOB,
    NETWORK_POLICY,
    PDB,
    POD,
    PVC,
    SERVICE,
    SERVICE_ACCOUNT,
    ResourceKind,
)

INFERENCE_TIER: Final = ResourceKind(GROUP, VERSION, KIND, PLURAL)

OURS: Final = f"app.kubernetes.io/managed-by=tierwright,{TIER_LABEL}"
"""Selects the children of all tiers and their pods."""


@dataclass(frozen=True)
class Watched:
    """One kind that is listed and watched; the empty selector means all of its objects."""

    kind: ResourceKind
    label_selector: str = OURS


CHILDREN: Final = (DEPLOYMENT, SERVICE, PVC, SERVICE_ACCOUNT, PDB, NETWORK_POLICY, JOB)
"""Every kind that a tier's bundle may hold."""

WATCHED: Final[tuple[Watched, ...]] = (
    Watched(INFERENCE_TIER, label_selector=""),
    *(Watched(kind) for kind in CHILDREN),
    Watched(POD),
    Watched(HPA, label_selector=""),
)
"""Tiers come first: children find their tier by its label."""
