"""Decides the identity of the pods: the user's ServiceAccount, or one made for the tier."""

from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name


def service_account_name(tier: InferenceTier) -> str:
    """The ServiceAccount that the pods run under."""
    return tier.spec.pod.service_account.name or child_name(tier.metadata.name)


def service_account(tier: InferenceTier) -> dict[str, Any] | None:
    """The tier's own ServiceAccount; None when the user names one, which is not ours to touch."""
    wanted = tier.spec.pod.service_account
    if wanted.name is not None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": child_metadata(tier, child_name(tier.metadata.name), wanted.annotations),
        "automountServiceAccountToken": False,
    }
