"""Decides Scheduled: whether every wanted pod exists and has a node."""

from tierwright.api.conditions import Reason
from tierwright.control.status import placement
from tierwright.control.status.draft import Draft
from tierwright.observe.snapshot import Snapshot

_WHY_NOT = (
    placement.creation_refused,
    placement.storage_class_missing,
    placement.volume_pending,
    placement.node_pool_empty,
    placement.unschedulable,
)


def scheduled(snapshot: Snapshot) -> Draft:
    """False with the scheduler's own words as soon as one pod cannot be placed."""
    pods = snapshot.active_pods
    unplaced = [pod for pod in pods if not pod.node]
    if unplaced or len(pods) < snapshot.wanted:
        for why in _WHY_NOT:
            if finding := why(snapshot):
                return Draft("False", finding.reason, finding.message)
        placed = len(pods) - len(unplaced)
        return Draft("Unknown", Reason.WAITING, f"{placed} of {snapshot.wanted} pods have a node so far")
    if not pods:
        return Draft("Unknown", Reason.NO_PODS, "there are no pods to place")
    return Draft("True", Reason.ALL_PLACED, f"{len(pods)} of {len(pods)} pods have a node")
