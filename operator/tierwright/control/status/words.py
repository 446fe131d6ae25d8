"""Makes words of others fit for a condition: one line, bounded."""

from typing import Final

WORD_LIMIT: Final = 700
WARNING_LIMIT: Final = 1024
"""Characters of one line of status.warnings, by its schema."""


def clipped(words: str) -> str:
    """The words on one line, cut where they get too long."""
    flat = " ".join(words.split())
    return flat if len(flat) <= WORD_LIMIT else f"{flat[:WORD_LIMIT]}…"


def tail(words: str, limit: int = 300) -> str:
    """The end of the words on one line: of a log the last lines matter."""
    flat = " ".join(words.split())
    return flat if len(flat) <= limit else f"…{flat[-limit:]}"
