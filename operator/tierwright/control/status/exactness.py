"""Decides what the status says of how exact a tier's answers are: what its ready pods told last, if its engine tells."""

from tierwright.api.status import ExactnessStatus
from tierwright.observe.snapshot import Snapshot


def exactness(snapshot: Snapshot, previous: ExactnessStatus | None) -> ExactnessStatus | None:
    """What was told last stays while nobody tells anything; another engine says nothing of the kind."""
    if snapshot.tier is None:
        return previous
    if snapshot.tier.spec.engine.type != "jax":
        return None
    view = snapshot.exactness
    if view is None:
        return previous
    return ExactnessStatus(row_exact=view.row_exact, agreement=view.agreement, lossy=view.lossy[:128] or None)
