"""Says what went wrong between us and the API server, and whether trying again can help (rule 13 of the design)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Verdict(StrEnum):
    """What to do after an error."""

    RETRY = "Retry"
    """Soon again, with backoff: the network, 409, 429, 5xx."""
    ONCE_PER_RESYNC = "OncePerResync"
    """Another person must act and nothing tells us when: 401, 403, an absent kind or namespace, 422, a policy."""
    TERMINAL = "Terminal"
    """Not before the object changes: 400 and the like."""


@dataclass(frozen=True)
class Cause:
    """One detail of an answer: which field, which machine-readable reason, and the words."""

    field: str
    reason: str
    message: str


class KubeError(Exception):
    """Anything that kept a request from succeeding; ``retry_after`` in seconds when the server named it."""

    retry_after: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What to do about it."""
        raise NotImplementedError


class NetworkError(KubeError):
    """No usable answer came: connection refused or cut, TLS, DNS, or the request's own time limit."""

    @property
    def verdict(self) -> Verdict:
        """The network comes back by itself."""
        return Verdict.RETRY


class ApiError(KubeError):
    """The API server answered with a failure.

    ``status`` is the HTTP status, ``reason`` the machine-readable word (``Conflict``, ``Forbidden``),
    ``message`` the server's own words, ``request`` what was asked, ``details`` the Status object's details.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        request: str = "",
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.request = request
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}

    def __str__(self) -> str:
        return f"{self.request}: {self.message} ({self.status} {self.reason})".removeprefix(": ")

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The details by field, such as the fields a 422 refuses or the managers a 409 names."""
        raw = self.details.get("causes") or ()
        return tuple(
            Cause(
                str(cause.get("field") or ""), str(cause.get("reason") or ""), str(cause.get("message") or "")
            )
            for cause in raw
            if isinstance(cause, Mapping)
        )

    @property
    def namespace_ends(self) -> bool:
        """Whether the write was refused since its namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def verdict(self) -> Verdict:
        """What to do about this status.

        A webhook that denies without a code of its own makes it 400, and policies change without the tier changing.
        """
        return Verdict.ONCE_PER_RESYNC if _DENIED.match(self.message) else verdict_of(self.status)


_DENIED: Final = re.compile(r'admission webhook "[^"]*" denied the request')
_RETRIED: Final = frozenset({408, 409, 410, 429})
_ONCE_PER_RESYNC: Final = frozenset({401, 403, 404, 405, 422})


def verdict_of(status: int) -> Verdict:
    """What to do after an answer with this HTTP status.

    403 is also quota, a namespace that ends and a role that may be given back; 404 on a write is an absent kind
    or namespace: those come right without the tier changing, so they are tried once per resync.
    """
    if status >= 500 or status in _RETRIED:
        return Verdict.RETRY
    if status in _ONCE_PER_RESYNC:
        return Verdict.ONCE_PER_RESYNC
    return Verdict.TERMINAL


_SHOWN_CHARS: Final = 300
_MISFIT_MANIFEST: Final = ("failed to create typed patch object", "failed to convert new object")
"""Server-side apply answers 500 with these words when the manifest does not fit the schema, or holds a value that its
field cannot (half a second, a quantity that is none), though nothing fails."""


def error_of(code: int, headers: Mapping[str, str], raw: bytes, what: str) -> KubeError:
    """The error that a failure answer stands for; the body may be no JSON when a proxy answered."""
    try:
        status = json.loads(raw)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        status = {"message": raw[:_SHOWN_CHARS].decode("utf-8", "replace").strip()}
    details = status.get("details") or {}
    retry_after = headers.get("Retry-After") or details.get("retryAfterSeconds")
    try:
        seconds = float(retry_after) if retry_after else None
    except ValueError:
        seconds = None
    reason = str(status.get("reason") or "Unknown")
    message = str(status.get("message") or "no message")
    if code == 500 and message.startswith(_MISFIT_MANIFEST):
        code, reason = 400, "BadRequest"
    return ApiError(code, reason, message, request=what, retry_after=seconds, details=details)
