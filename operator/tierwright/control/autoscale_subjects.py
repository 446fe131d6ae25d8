"""Decides which tiers the autoscaler looks at: those that have a workload and are neither suspended nor on their way out."""

import logging
from dataclasses import dataclass
from typing import Any

from tierwright.api.parse import parse_tier
from tierwright.api.tier import InferenceTier
from tierwright.control.live_objects import stored_workload
from tierwright.control.observation import LivePod, live_pods
from tierwright.control.tier_settings import has_objectives
from tierwright.kube.resources import Object
from tierwright.observe.store import Store, TierKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """A tier that is looked at in this tick."""

    key: TierKey
    tier: InferenceTier
    uid: str
    wanted: int
    """Replicas that its workload is asked for."""
    pods: tuple[LivePod, ...]
    measured: bool
    """Whether it has objectives; the others only count for what they take of a pool."""


@dataclass(frozen=True, slots=True)
class Found:
    """All tiers of the store: those to look at, those that rest, and those that are there no more."""

    subjects: tuple[Subject, ...]
    resting: frozenset[TierKey]
    gone: frozenset[TierKey]
    uids: dict[TierKey, str]
    """Of all that are there."""


class TierFinder:
    """Finds them in the store; a tier is parsed anew only when it changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: dict[TierKey, tuple[tuple[Any, ...], InferenceTier | None]] = {}

    def find(self, now: float) -> Found:
        """All tiers at ``now``, seconds since 1970."""
        subjects: list[Subject] = []
        resting: set[TierKey] = set()
        uids: dict[TierKey, str] = {}
        for obj in self._store.tiers():
            metadata = obj["metadata"]
            key, uid = (metadata["namespace"], metadata["name"]), str(metadata["uid"])
            uids[key] = uid
            try:
                subject = self._subject(key, uid, obj, now)
            except Exception:
                log.exception("%s/%s is not looked at because of a bug", *key)
                subject = None
            if subject is None:
                resting.add(key)
            else:
                subjects.append(subject)
        gone = frozenset(self._parsed.keys() - uids.keys())
        for key in gone:
            del self._parsed[key]
        return Found(tuple(subjects), frozenset(resting), gone, uids)

    def tier(self, key: TierKey, uid: str) -> InferenceTier | None:
        """The tier as it was when it was looked at last; None where it is another by now, or cannot be read."""
        _, tier = self._parsed.get(key, (None, None))
        return tier if tier is not None and tier.metadata.uid == uid else None

    def _subject(self, key: TierKey, uid: str, obj: Object, now: float) -> Subject | None:
        tier = self._parse(key, obj)
        if tier is None or tier.spec.suspend or obj["metadata"].get("deletionTimestamp"):
            return None
        workload = stored_workload(self._store, key, uid)
        if workload is None:
            return None
        wanted, scaling = int((workload.get("spec") or {}).get("replicas") or 0), tier.spec.scaling
        if scaling.mode == "Auto" and wanted == 0 and scaling.fewest_in_auto > 0:
            # Zero below the bounds is what a suspension left: the reconciler sets the start value.
            return None
        pods = live_pods(self._store.pods_of(*key), now)
        return Subject(key, tier, uid, wanted, pods, has_objectives(tier))

    def _parse(self, key: TierKey, obj: Object) -> InferenceTier | None:
        metadata = obj["metadata"]
        mark = (metadata["uid"], metadata.get("generation"), metadata.get("annotations"))
        known = self._parsed.get(key)
        if known is None or known[0] != mark:
            without_status = {name: value for name, value in obj.items() if name != "status"}
            known = self._parsed[key] = (mark, parse_tier(without_status, strict=False).tier)
        return known[1]
