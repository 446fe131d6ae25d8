"""Finds in the store what belongs to a tier, and not to another object of the same name."""

from tierwright.control.apply_plan import controller_of
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import child_name, label_value
from tierwright.kube.resources import DEPLOYMENT, Object, ObjectRef
from tierwright.observe.store import Store, TierKey


def stored_workload(store: Store, key: TierKey, uid: str) -> Object | None:
    """The live Deployment of the tier with this uid: it carries the label, and no other object controls it."""
    live = store.get(ObjectRef(DEPLOYMENT, key[0], child_name(key[1])))
    if live is None or (live["metadata"].get("labels") or {}).get(TIER_LABEL) != label_value(key[1]):
        return None
    controller = controller_of(live)
    return live if controller is None or controller.get("uid") == uid else None


def uids_with_workload(store: Store, tiers: list[Object]) -> set[str]:
    """Those of several tiers that control a live Deployment."""
    if len(tiers) < 2:
        return set()
    names = {(tier["metadata"]["namespace"], child_name(tier["metadata"]["name"])) for tier in tiers}
    found = (store.get(ObjectRef(DEPLOYMENT, *each)) for each in names)
    return {str((controller_of(live) or {}).get("uid")) for live in found if live is not None}
