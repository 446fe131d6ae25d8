"""Writes Kubernetes Events on an object: one for each (object, reason, message), counted, never in the way."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

EventType = Literal["Normal", "Warning"]


class EventRecorder(Protocol):
    """Where Events go."""

    async def record(self, regarding: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        """Says that something happened to the object ``regarding`` (apiVersion, kind, metadata with uid).

        The same (uid, reason, message) is written at most once in 10 minutes, and its count rises; failures are
        logged and counted, never raised.
        """
