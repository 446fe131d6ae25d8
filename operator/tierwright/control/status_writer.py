"""Writes a tier's status when it differs from what is stored, and Events for what changed (rules 4 and 19)."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from tierwright.api.status import TierStatus
from tierwright.control.apply_plan import manifest_hash
from tierwright.control.attempts import Patience, Row
from tierwright.control.containment import differences
from tierwright.control.status.transitions import Transition
from tierwright.kube.errors import ApiError, Verdict
from tierwright.kube.events import EventRecorder
from tierwright.kube.resources import Object, ref_of
from tierwright.kube.verbs import KubeClient
from tierwright.observe.managers import STATUS_MANAGER
from tierwright.observe.store import Store, TierKey

_WHOEVER_ASKS: Final = frozenset({401, 403, 405})
_UNTYPED: Final = "failed to create typed live object"
_log = logging.getLogger(__name__)


def stored_status(obj: Object) -> TierStatus:
    """The status that the stored tier carries; an empty one where today's models do not accept it."""
    try:
        return TierStatus.model_validate(obj.get("status") or {})
    except ValidationError:
        return TierStatus()


@dataclass(frozen=True)
class _Refused:
    """A status that the server did not take, when, and whether it would have been the same for any other."""

    digest: str
    at: datetime
    of_any_content: bool

    def stands(self, digest: str, oldest: datetime) -> bool:
        """Whether another try would only be refused again."""
        return self.at > oldest and (self.of_any_content or self.digest == digest)


class StatusWriter:
    """The one writer of tiers' status."""

    def __init__(self, client: KubeClient, store: Store, recorder: EventRecorder, patience: Patience) -> None:
        self._client = client
        self._store = store
        self._recorder = recorder
        self._patience = patience
        self._rows: dict[TierKey, Row] = {}
        self._refused: dict[TierKey, _Refused] = {}
        self._unheeded: dict[TierKey, tuple[str, Object, Object]] = {}
        """The tier's uid, a status that was written, and what the server kept of it when the two differ."""

    async def write(
        self, obj: Object, after: TierStatus, now: datetime, events: Iterable[Transition] = ()
    ) -> set[TierKey]:
        """Writes ``after`` on the tier ``obj`` unless it stands there already, and then these Events of what changed.

        Returns the tiers for which the new status is news.

        Raises:
            KubeError: the API server did not take it.
        """
        stored: Object = obj.get("status") or {}
        wire = dict(after.to_wire())
        metadata = obj["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        if _equal(wire, stored) or self._unheeded.get(key) == (uid, wire, stored):
            return set()
        row, digest = self._rows.setdefault(key, Row()), f"{uid} {manifest_hash(_timeless(wire))}"
        if row.is_fought_over(digest, now - self._patience.refused):
            _log.warning(
                "the status of %s is left alone until the next resync: something changes it again and again",
                metadata["name"],
            )
            return set()
        refused = self._refused.get(key)
        if refused is not None and refused.stands(digest, now - self._patience.refused):
            return set()
        try:
            live = await self._send(obj, wire, stored)
        except ApiError as error:
            if error.verdict is not Verdict.RETRY:
                self._refused[key] = _Refused(digest, now, of_any_content=error.status in _WHOEVER_ASKS)
            raise
        self._refused.pop(key, None)
        row.note(digest, now)
        news = self._store.put(self._store.tier_kind, live)
        kept: Object = live.get("status") or {}
        if _equal(wire, kept):
            self._unheeded.pop(key, None)
        else:
            # A field that another manager owns, or one that an older CRD prunes: written once, never in a loop.
            self._unheeded[key] = (uid, wire, kept)
            _log.warning("the stored status of %s is not the one that was written", metadata["name"])
        for each in events:
            await self._recorder.record(obj, each.type, each.reason, each.message)
        return news

    async def _send(self, obj: Object, wire: Object, stored: Object) -> Object:
        kind, metadata = self._store.tier_kind, obj["metadata"]
        manifest = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "status": wire,
        }
        try:
            return await self._client.apply(manifest, manager=STATUS_MANAGER, kind=kind, subresource="status")
        except ApiError as error:
            if _UNTYPED not in error.message:
                raise
        # Server-side apply cannot read a stored spec that has a field of another type than today's schema; it is
        # such a tier above all whose status must say what is wrong. A merge patch does not look at the spec.
        gone = dict.fromkeys(stored.keys() - wire.keys())
        return await self._client.patch(
            ref_of(obj, kind),
            {"metadata": {"uid": metadata["uid"]}, "status": {**gone, **wire}},
            manager=STATUS_MANAGER,
            subresource="status",
        )

    def forget(self, key: TierKey) -> None:
        """Drops what is remembered of a tier that is gone."""
        self._unheeded.pop(key, None)
        self._rows.pop(key, None)
        self._refused.pop(key, None)


def _timeless(wire: Object) -> Object:
    """The status without the times of its conditions: each repair of a forged condition brings a new one."""
    conditions = [
        {name: value for name, value in each.items() if name != "lastTransitionTime"}
        for each in wire.get("conditions") or ()
    ]
    return {**wire, "conditions": conditions}


def _equal(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return not differences(left, right) and not differences(right, left)
