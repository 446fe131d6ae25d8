"""Keeps one row per finished run outside the clone: a run that is killed loses only itself, and processes side by side share the work."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Rows:
    """Rows by their key, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Row | None:
        """The row, or None when it has not been run."""
        try:
            row: Row = json.loads((self._folder / f"{key}.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        return row

    def put(self, key: str, row: Row) -> None:
        """Keep a row; it is there whole or not at all."""
        part = self._folder / f"{key}.{os.getpid()}.part"
        part.write_text(json.dumps(row), "utf-8")
        part.replace(self._folder / f"{key}.json")

    @contextmanager
    def claimed(self, key: str) -> Iterator[bool]:
        """Whether this process alone may run it now; look again whether it is there by now. The system gives the claim back when the process ends, however it ends."""
        with (self._folder / f"{key}.claim").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
