"""Decides when a tier at zero replicas is woken: by the annotation `tierwright.dev/wake`, or by requests that wait.

A value that is a time (RFC 3339) wakes at that time, and no longer once the hold after it has passed, so that a manifest
applied again next month wakes nobody. Any other value wakes when it is not the value that woke last.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

WAKE_ANNOTATION: Final = "tierwright.dev/wake"
MOST_CHARACTERS: Final = 64
"""What is remembered of a value; the rest of a longer one makes no difference."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Whether a tier is to be woken, and what has to be remembered of it."""

    queued: float
    """For the observation: requests in front of the tier. A wake-up is a request that waits, for a tier at zero alone."""
    heard: str
    """The value that has led to replicas; kept beside what was learned, and given back with the next question."""


def wake(
    value: str | None, heard: str, *, asked: int, now: datetime, hold: float, queued: float = 0.0
) -> Wake:
    """Decide at `now` for a tier that is `asked` for so many replicas.

    `hold` is how long, in seconds, an idle tier keeps its last replica; `queued` are requests that wait at the gateway.
    A value that changes while the tier runs has done its work: the tier is awake.
    """
    text = (value or "")[:MOST_CHARACTERS]
    if not text:
        return Wake(queued, heard)
    due = _time(text)
    if due is None:
        called = text != heard
    elif due > now:
        return Wake(queued, heard)
    else:
        called = text != heard and (now - due).total_seconds() < hold
    if called and asked == 0:
        return Wake(max(queued, 1.0), heard)
    return Wake(queued, text)


def _time(text: str) -> datetime | None:
    """The time that a value gives; a date without a time of day is a word like any other."""
    if "T" not in text.upper():
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
