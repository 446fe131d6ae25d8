"""Notices that files with credentials were replaced: a kubeconfig, a certificate, a key, a token, an authority."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

LOOK_EVERY: Final = 5.0
"""Seconds between two looks: a replaced certificate is valid for long before the former one ends."""

_Stamp = tuple[int, int, int] | None


class CredentialFiles:
    """The files that one set of credentials was read from, and how they were then; ``clock`` counts seconds."""

    def __init__(self, paths: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Take note of the files as they are now."""
        self._stamps = {path: _stamp(path) for path in paths if path}
        self._clock = clock
        self._looked = clock()

    def add(self, paths: Iterable[str]) -> None:
        """Take note of further files as they are now."""
        self._stamps |= {path: _stamp(path) for path in paths if path}

    @property
    def stamps(self) -> dict[str, _Stamp]:
        """Each file with what tells one state of it from another; None for one that is not there."""
        return dict(self._stamps)

    def changed(self) -> bool:
        """Whether a file is another one by now; looks at most every few seconds."""
        now = self._clock()
        if now - self._looked < LOOK_EVERY:
            return False
        self._looked = now
        return any(_stamp(path) != known for path, known in self._stamps.items())


def _stamp(path: str) -> _Stamp:
    """Secrets and service accounts are replaced by turning a link, so the file behind it is looked at."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
