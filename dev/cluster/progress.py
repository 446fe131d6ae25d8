"""Shows how a long step comes along: one line that is redrawn on a terminal, a line now and then in a log."""

import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

_TERMINAL_EVERY_S = 0.5
_LOG_EVERY_S = 20.0
_TAIL_BYTES = 4096
_LONGEST_LAST = 70
# Before that many seconds, and that share of the work, the pace says nothing.
_PACE_AFTER_S = 15.0
_PACE_AFTER_SHARE = 0.03


class Progress:
    """A context manager; `show` gives the text, the time elapsed is added and goes on while nothing is shown."""

    def __init__(self, text: str | Callable[[], str] = "", stream: TextIO | None = None) -> None:
        """Show `text`, or what it returns whenever a line is due; on `stream`, by default standard output."""
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._text = text
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
        text = self._text if isinstance(self._text, str) else self._text()
        return f"{text} ({seconds // 60}:{seconds % 60:02d})"

    def _run(self) -> None:
        while not self._done.wait(_TERMINAL_EVERY_S if self._terminal else _LOG_EVERY_S):
            # A line that wraps could not be redrawn.
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{self.line()[:width]}" if self._terminal else f"{self.line()}\n")
            self._stream.flush()


def following(what: str, log: Path, prefix: str = "", among: tuple[str, ...] = ()) -> Progress:
    """Progress that shows `what` and the last line of a growing log that begins with `prefix`, and a word of `among`."""

    def text() -> str:
        last = last_line(log, prefix, among)
        return f"{what}: {last}" if last else what

    return Progress(text)


def last_line(log: Path, prefix: str = "", among: tuple[str, ...] = ()) -> str:
    """The last line near the end of a file that begins with `prefix`, without it; empty when there is none.

    With `among`, only lines count whose first word, whatever they are indented, is one of these.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    found = [line.strip() for line in lines if line.strip() and line.startswith(prefix)]
    if among:
        found = [line for line in found if line.split(maxsplit=1)[0] in among]
    return found[-1].removeprefix(prefix).strip()[:_LONGEST_LAST] if found else ""


def time_left(done: int, total: int, elapsed_s: float) -> str:
    """In words how long the rest takes at the pace so far, such as `about 4 min left`; empty while that is unknown."""
    if elapsed_s < _PACE_AFTER_S or done < _PACE_AFTER_SHARE * total or done >= total:
        return ""
    left_s = elapsed_s / done * (total - done)
    return f"about {left_s / 60:.0f} min left" if left_s >= 90 else "about a minute left"
