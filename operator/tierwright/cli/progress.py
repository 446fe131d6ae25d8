"""Tells on stderr how far long work is: one line that is written over on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_ON_TERMINAL: Final = 0.2
_ELSEWHERE: Final = 10.0
_WIDTH: Final = 100


class Progress:
    """Nothing is told of work that ends soon."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every = _ON_TERMINAL if self._terminal else _ELSEWHERE
        self._last = clock()
        self._shown = False

    def tell(self, words: str) -> None:
        """Say where the work is; cheap, may be called often."""
        now = self._clock()
        if now - self._last < self._every:
            return
        self._last, self._shown = now, True
        if self._terminal:
            self._stream.write(f"\r{words[:_WIDTH]:<{_WIDTH}}")
        else:
            self._stream.write(f"{words}\n")
        self._stream.flush()

    def done(self) -> None:
        """Take the line away."""
        if self._shown and self._terminal:
            self._stream.write("\r" + " " * _WIDTH + "\r")
            self._stream.flush()
        self._shown = False
