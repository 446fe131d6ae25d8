"""Finds where an answer must end by its text, over token boundaries, and holds back what may begin a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Released:
    """Text that may be shown now, and the stop string that ended the answer, if one did."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Cuts a text at the first stop string to be complete, however the text is cut into pieces.

    Among stop strings that are complete at the same character the longest counts. A text that cannot be the
    beginning of a stop string is released at once.
    """

    def __init__(self, stops: Sequence[str], include: bool = False) -> None:
        if any(not stop for stop in stops):
            raise ValueError("a stop string must not be empty")
        self._stops = sorted(set(stops), key=lambda stop: (-len(stop), stop))
        self._longest = max((len(stop) for stop in stops), default=0)
        self._include = include
        self._held = ""

    def push(self, text: str) -> Released:
        """Add text; once a stop was found nothing more may be added."""
        known = self._held + text
        found = self._first_complete(known)
        if found is not None:
            start, stop = found
            self._held = ""
            return Released(known[: start + len(stop)] if self._include else known[:start], stop)
        keep = self._may_begin(known)
        self._held = known[len(known) - keep :]
        return Released(known[: len(known) - keep])

    def flush(self) -> str:
        """What was held back, once the answer has ended for another reason."""
        held, self._held = self._held, ""
        return held

    def _first_complete(self, text: str) -> tuple[int, str] | None:
        """Start and string of the match that ends first; the longest, so the one that starts first, among equals."""
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (best is None or start + len(stop) < best[0]):
                best = (start + len(stop), start, stop)
        return None if best is None else (best[1], best[2])

    def _may_begin(self, text: str) -> int:
        """Length of the longest end of `text` that is the beginning of a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[len(text) - length :]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
