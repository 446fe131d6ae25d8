"""Prints the demo's story: numbered steps with their seconds, and what the cluster says."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Console:
    """Numbered steps on stdout; bold where it is a terminal."""

    def __init__(self, steps: int) -> None:
        """``steps`` is how many steps there will be."""
        self._steps = steps
        self._done = 0
        self._began = time.monotonic()
        self._colour = sys.stdout.isatty()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step: its title before, its seconds after."""
        self._done += 1
        began = time.monotonic()
        self._print(f"[{self._done}/{self._steps}] {title}", "1")
        yield
        self._print(f"      done in {time.monotonic() - began:.1f} s", "2")

    def say(self, text: str) -> None:
        """Lines under the current step."""
        for line in text.rstrip().splitlines():
            print(f"      {line}", flush=True)

    def end(self, text: str) -> None:
        """The last line, with the seconds of the whole demo."""
        self._print(f"{text} ({time.monotonic() - self._began:.0f} s)", "1")

    def _print(self, text: str, code: str) -> None:
        print(f"\033[{code}m{text}\033[0m" if self._colour else text, flush=True)
