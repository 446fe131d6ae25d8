"""Shows how a long step comes along: one line that is redrawn on a terminal, a line now and then in a log."""

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

_TERMINAL_EVERY_S = 0.5
_LOG_EVERY_S = 20.0


class Progress:
    """A context manager; `show` gives the text, the time elapsed is added and goes on while nothing is shown."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to `stream`, by default standard output."""
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._text = ""
        self._began = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Progress":
        """Start showing."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line on a terminal."""
        self._done.set()
        self._thread.join()
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, text: str) -> None:
        """Replace the text; cheap, may be called for every line of a compiler's output."""
        self._text = text

    def line(self) -> str:
        """What is shown now, with minutes and seconds since the start."""
        seconds = int(time.monotonic() - self._began)
        return f"{self._text} ({seconds // 60}:{seconds % 60:02d})"

    def _run(self) -> None:
        while not self._done.wait(_TERMINAL_EVERY_S if self._terminal else _LOG_EVERY_S):
            self._stream.write(f"\r\x1b[K{self.line()}" if self._terminal else f"{self.line()}\n")
            self._stream.flush()
