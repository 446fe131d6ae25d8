"""Names the tier's kind and all kinds that are watched, with the selector by which the server filters each."""

from dataclasses import dataclass
from typing import Final

from tierwright.api.tier import GROUP, KIND, PLURAL, VERSION
from tierwright.desired.labels import TIER_LABEL
from tierwright.kube.resources import (
    DEPLOYMENT,
    HPA,
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


WATCHED: Final[tuple[Watched, ...]] = (
    Watched(INFERENCE_TIER, label_selector=""),
    Watched(DEPLOYMENT),
    Watched(POD),
    Watched(SERVICE),
    Watched(PVC),
    Watched(SERVICE_ACCOUNT),
    Watched(PDB),
    Watched(NETWORK_POLICY),
    Watched(HPA, label_selector=""),
)
"""Tiers come first: children find their tier by its label."""
