"""What the reconciler asks of the autoscaler, and the one that knows nothing yet."""

from collections.abc import Mapping
from typing import Protocol

from tierwright.observe.snapshot import ExactnessView, ScalingView
from tierwright.observe.store import TierKey


class ScalingSource(Protocol):
    """Whoever measures tiers and decides for them."""

    def view(self, key: TierKey, uid: str) -> ScalingView | None:
        """What is said of the tier with this uid; None as long as nothing is."""

    def exactness(self, key: TierKey, uid: str) -> ExactnessView | None:
        """How far the answers of the tier with this uid are exact; None as long as no ready pod of it told."""

    def requests(self, key: TierKey) -> Mapping[str, float]:
        """Pod → the requests that it had when it was last asked."""


class NothingMeasured:
    """Says nothing of any tier."""

    def view(self, key: TierKey, uid: str) -> ScalingView | None:  # noqa: ARG002 - the same for every tier
        """None."""
        return None

    def exactness(self, key: TierKey, uid: str) -> ExactnessView | None:  # noqa: ARG002 - the same for every tier
        """None."""
        return None

    def requests(self, key: TierKey) -> Mapping[str, float]:  # noqa: ARG002 - the same for every tier
        """None of any pod."""
        return {}
