"""One file lock per shared thing, so that two commands started at once do not build or start it twice."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on `path` unless somebody else holds it; gives whether it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextlib.contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on `path`; says `waiting` once when somebody else holds it. A killed holder frees it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{waiting}; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
