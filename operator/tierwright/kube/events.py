"""Writes Kubernetes Events on an object: one for each (object, reason, message), counted, never in the way."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from tierwright.kube.errors import ApiError, KubeError
from tierwright.kube.resources import EVENT, Object, ObjectRef
from tierwright.kube.verbs import KubeClient
from tierwright.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
COMPONENT: Final = "tierwright"
QUIET_TIME: Final = timedelta(minutes=10)
"""The same Event is written at most once in this time."""
ENDING_TIME: Final = timedelta(minutes=1)
"""How long a namespace that is being deleted is left alone: it may come back under its name."""
MAX_REMEMBERED: Final = 4096
MAX_MESSAGE: Final = 1024
"""The API server refuses longer messages of Events."""


@dataclass
class _Seen:
    """What was written of one Event and how often it happened."""

    name: str
    first: datetime
    written: datetime
    count: int


class EventRecorder:
    """Writes Events through ``client``; ``now`` gives the time with its zone."""

    def __init__(self, client: KubeClient, metrics: Metrics, now: Callable[[], datetime]) -> None:
        """Start with no memory: counts of Events written before a restart are read from the server."""
        self._client = client
        self._metrics = metrics
        self._now = now
        self._seen: OrderedDict[tuple[str, str, str], _Seen] = OrderedDict()
        self._ending: dict[str, datetime] = {}
        """Namespaces that took no Event since they are being deleted, and when."""

    async def record(self, regarding: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        """Says that something happened to the object ``regarding`` (apiVersion, kind, metadata with uid).

        The same (uid, reason, message) is written at most once in 10 minutes, and its count rises meanwhile;
        failures are logged and counted, never raised. The name of the Event is made from these three, so that
        restarts do not write it anew.
        """
        metadata = regarding["metadata"]
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
        identity = (str(metadata.get("uid", "")), reason, message)
        now = self._now()
        if (ending := self._ending.get(metadata["namespace"])) and now - ending < ENDING_TIME:
            return
        seen = self._seen.get(identity)
        if seen is not None:
            self._seen.move_to_end(identity)
            seen.count += 1
            if now - seen.written < QUIET_TIME:
                self._metrics.events.labels("repeated").inc()
                return
        try:
            seen = seen or await self._known(metadata, identity, now)
            await self._write(regarding, type_, reason, message, seen, now)
        except KubeError as error:
            self._metrics.events.labels("failed").inc()
            if isinstance(error, ApiError) and error.namespace_ends:
                self._ending = {name: at for name, at in self._ending.items() if now - at < ENDING_TIME}
                self._ending[metadata["namespace"]] = now
            log.warning("could not write the Event %s (%s): %s", reason, message, error)
            return
        seen.written = now
        self._remember(identity, seen)
        self._metrics.events.labels("written").inc()

    async def _known(
        self, metadata: Mapping[str, Any], identity: tuple[str, str, str], now: datetime
    ) -> _Seen:
        """The count of an Event of an earlier process. An empty patch reads it: the role may write Events only."""
        name = event_name(str(metadata["name"]), identity)
        try:
            live = await self._client.patch(ObjectRef(EVENT, metadata["namespace"], name), {})
        except ApiError as error:
            if error.status != 404:
                raise
            return _Seen(name, now, now, 1)
        first = _parse_time(live.get("firstTimestamp")) or now
        return _Seen(name, first, now, int(live.get("count") or 0) + 1)

    async def _write(
        self,
        regarding: Mapping[str, Any],
        type_: EventType,
        reason: str,
        message: str,
        seen: _Seen,
        now: datetime,
    ) -> None:
        metadata = regarding["metadata"]
        event: Object = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": seen.name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "count": seen.count,
            "firstTimestamp": _format_time(seen.first),
            "lastTimestamp": _format_time(now),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        await self._client.apply(event, manager=COMPONENT)

    def _remember(self, identity: tuple[str, str, str], seen: _Seen) -> None:
        self._seen[identity] = seen
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)


def event_name(object_name: str, identity: tuple[str, str, str]) -> str:
    """The object's name (cut to fit 253 characters) and a hash of what makes two Events the same."""
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return f"{object_name[: 253 - 17].rstrip('.-')}.{digest}"


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
