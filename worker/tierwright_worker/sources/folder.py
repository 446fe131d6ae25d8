"""Reads a folder or a file that is there already: a slow network volume whose model is to lie on a fast one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tierwright_worker.errors import ModelNotFoundError, SourceAccessError, SourceUnreachableError
from tierwright_worker.sources.remote import CannotResumeError, Opened, RemoteFile, TransientError
from tierwright_worker.sources.source import FolderSource
from tierwright_worker.sources.volume import unfinished

_BLOCK = 1 << 20


class FolderRemote:
    """A path. Files are told apart by size and time of change; there is no digest to check against."""

    def __init__(self, source: FolderSource) -> None:
        """Nothing is read yet."""
        self._source = source
        self._root = source.path

    def files(self) -> tuple[RemoteFile, ...]:
        """All files below the path that do not begin with a dot; the path alone where it is a file."""
        try:
            return self._files()
        except OSError as error:
            raise SourceAccessError(f"{self._source}: cannot be read: {error}") from error

    def _files(self) -> tuple[RemoteFile, ...]:
        if self._root.is_file():
            return (self._file(self._root, self._root.name),)
        if not self._root.is_dir():
            raise ModelNotFoundError(f"{self._source}: {self._root} is neither a folder nor a file")
        if unfinished(self._root):
            raise ModelNotFoundError(f"{self._source}: {self._root} is itself a fetch that has not ended")
        found = []
        for folder, names, files in os.walk(self._root):
            names[:] = [name for name in names if not name.startswith(".")]
            inside = Path(folder).relative_to(self._root)
            found += [
                self._file(Path(folder) / name, str(inside / name))
                for name in files
                if not name.startswith(".")
            ]
        return tuple(found)

    @contextmanager
    def open(self, file: RemoteFile, start: int) -> Iterator[Opened]:
        """The file's bytes from `start` on."""
        path = self._root if self._root.is_file() else self._root / file.path
        try:
            source = path.open("rb")
        except OSError as error:
            raise SourceUnreachableError(f"{self._source}: {path} cannot be read: {error}") from error
        with source:
            if self._file(path, file.path).identity != file.identity:
                raise SourceUnreachableError(
                    f"{self._source}: {path} changed while it was copied; try again once it is still"
                )
            if start > file.size:
                raise CannotResumeError
            source.seek(start)
            yield Opened(start, self._blocks(source))

    @staticmethod
    def _blocks(source: BinaryIO) -> Iterator[bytes]:
        try:
            while block := source.read(_BLOCK):
                yield block
        except OSError as error:
            raise TransientError(f"cannot be read: {error}") from error

    @staticmethod
    def _file(path: Path, name: str) -> RemoteFile:
        seen = path.stat()
        return RemoteFile(name, seen.st_size, f"{seen.st_size}-{seen.st_mtime_ns}")
