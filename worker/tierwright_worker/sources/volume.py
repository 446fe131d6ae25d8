"""Keeps a fetched folder honest: one fetcher at a time, and a marker that is there only once every file is whole."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierwright_worker.errors import CacheVolumeError, SettingsError
from tierwright_worker.sources.progress import size_words
from tierwright_worker.sources.remote import RemoteFile

# The operator's init container of other engines leaves an empty file of this name: complete as well.
MARKER = ".tierwright-complete"
WORK = ".tierwright-partial"
_LOCK = ".tierwright-lock"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Complete:
    """What a marker says: which source, and each file's size. `source` None: written by something else."""

    source: str | None
    sizes: dict[str, int]


def unfinished(folder: Path) -> bool:
    """Whether a fetch into the folder has begun and not ended."""
    return (folder / WORK).is_dir() and not (folder / MARKER).is_file()


def complete(folder: Path, source: str) -> bool:
    """Whether the folder holds all of `source`; a file that has gone or shrunk since makes it incomplete again.

    Raises:
        SettingsError: it holds another source.
    """
    marker = _read_marker(folder / MARKER)
    if marker is None:
        return False
    if marker.source is None:
        return True
    if marker.source != source:
        raise SettingsError(f"{folder} holds {marker.source} already; give {source} a folder of its own")
    return all(_size(folder / name) == size for name, size in marker.sizes.items())


def begin(folder: Path) -> None:
    """From here on the folder is unfinished."""
    (folder / WORK).mkdir(exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)
    _sync_folder(folder)


def finish(folder: Path, source: str, files: Sequence[RemoteFile]) -> None:
    """Mark the folder complete, in one step, and drop what the fetch left beside it."""
    marker = folder / WORK / "complete"
    entries = [
        {
            "path": file.path,
            "size": file.size,
            "digest": f"{file.digest.algorithm}:{file.digest.value}" if file.digest else None,
        }
        for file in files
    ]
    with marker.open("w", encoding="utf-8") as out:
        json.dump({"source": source, "files": entries}, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    marker.replace(folder / MARKER)
    _sync_folder(folder)
    shutil.rmtree(folder / WORK, ignore_errors=True)


def check_space(folder: Path, needed: int) -> None:
    """Refuse before the first byte what cannot fit.

    Raises:
        CacheVolumeError: fewer bytes are free than are still to come.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise CacheVolumeError(
            f"{folder} has {size_words(free)} free and {size_words(needed)} are still to be fetched; "
            "give the volume more space"
        )


@contextmanager
def locked(folder: Path, waiting: str) -> Iterator[None]:
    """The folder for this process alone; the lock ends with the process, however it ends. `waiting` is said when it waits.

    Raises:
        CacheVolumeError: the file system knows no locks.
    """
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)  # noqa: T201 - a person or a pod's log waits for a word
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
                raise CacheVolumeError(
                    f"{folder}: its file system offers no file locks ({error.strerror}), so that two fetchers could "
                    "harm each other; mount it with locks (Lustre: -o flock)"
                ) from error
            raise
        yield


@contextmanager
def volume_errors(folder: Path) -> Iterator[None]:
    """Say what is wrong with the volume where the system refuses to write."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise CacheVolumeError(
                f"{folder} is full: {error}; what was fetched is kept, give the volume more space and try again"
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise CacheVolumeError(
                f"{folder} cannot be written: {error}; mount it writable for uid {os.getuid()}"
            ) from error
        raise CacheVolumeError(f"{folder} cannot be used: {error}") from error


def _read_marker(path: Path) -> Complete | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if not text.strip():
        return Complete(None, {})
    with contextlib.suppress(ValueError, KeyError, TypeError):
        value: Any = json.loads(text)
        return Complete(str(value["source"]), {str(e["path"]): int(e["size"]) for e in value["files"]})
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems do not sync folders
            os.fsync(handle)
    finally:
        os.close(handle)
