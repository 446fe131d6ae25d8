"""Says how far a fetch is: a line every few seconds, as plain lines that a pod's log can hold."""

import threading
from collections.abc import Callable

_GIB = 2**30
_MIB = 2**20


class Progress:
    """Counts bytes of several threads. `say` gets each line; `clock` gives seconds."""

    def __init__(
        self,
        total: int,
        say: Callable[[str], None],
        clock: Callable[[], float],
        every: float = 5.0,
    ) -> None:
        """`total` bytes are to come."""
        self._total, self._say, self._clock, self._every = total, say, clock, every
        self._lock = threading.Lock()
        self._done = self._here = 0
        self._began = self._said = clock()

    def found(self, size: int) -> None:
        """Bytes that were on the volume already."""
        with self._lock:
            self._done += size

    def dropped(self, size: int) -> None:
        """Bytes that have to come once more."""
        with self._lock:
            self._done -= size

    def received(self, size: int) -> None:
        """Bytes that came in."""
        with self._lock:
            self._done += size
            self._here += size
            now = self._clock()
            if now - self._said < self._every:
                return
            self._said = now
            line = self.line(now)
        self._say(line)

    def line(self, now: float) -> str:
        """How far it is."""
        seconds = max(now - self._began, 1e-3)
        rate = self._here / seconds
        left = f", about {(self._total - self._done) / rate:.0f} s left" if rate > 0 else ""
        share = 100 * self._done / self._total if self._total else 100
        return f"{size_words(self._done)} of {size_words(self._total)} ({share:.0f} %), {rate / _MIB:.1f} MiB/s{left}"


def size_words(size: int) -> str:
    """A size for people."""
    return f"{size / _GIB:.2f} GiB" if size >= _GIB else f"{size / _MIB:.1f} MiB"
