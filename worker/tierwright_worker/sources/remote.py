"""Defines what every kind of source offers: a list of files with their digests, and their bytes from any position on."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

GIT_BLOB: Final = "git-blob"
CRC64_NVME: Final = "crc64nvme"
CRC32: Final = "crc32"
CRC32C: Final = "crc32c"


class TransientError(Exception):
    """What may work at the next try. `retry_after`: seconds that the other side asked us to wait."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class CannotResumeError(Exception):
    """The other side has nothing from this position on: what was fetched so far is of no use."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file's content must hash to. `value`: lower-case hex."""

    algorithm: str  # sha256, sha1, md5, git-blob, crc32, crc32c, crc64nvme
    value: str


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a source. `identity` changes whenever the content does: a commit, an ETag, a time of change."""

    path: str
    size: int
    identity: str
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Bytes that come in. `start`: the position of the first one; 0 where the other side knows no ranges."""

    start: int
    chunks: Iterator[bytes]


class Remote(Protocol):
    """Where files come from. Its methods may be called from several threads."""

    def files(self) -> tuple[RemoteFile, ...]:
        """All files.

        Raises:
            TransientError: it may work later.
            WorkerError: it never will: access refused, nothing there.
        """
        ...

    def open(self, file: RemoteFile, start: int) -> AbstractContextManager[Opened]:
        """A file's bytes from `start` on. Raises as `files` does, and CannotResumeError."""
        ...


class Hasher:
    """Computes a file's digest piece by piece."""

    def __init__(self, algorithm: str, size: int) -> None:
        """`size` of the whole file in bytes: git hashes it first."""
        self._algorithm = algorithm
        self._crc: int | None = 0 if algorithm in (CRC32, CRC32C, CRC64_NVME) else None
        # Not for secrecy: these are the digests that the other side offers.
        self._hash = None
        if self._crc is None:
            name = "sha1" if algorithm == GIT_BLOB else algorithm
            self._hash = hashlib.new(name, usedforsecurity=False)
            if algorithm == GIT_BLOB:
                self._hash.update(b"blob %d\0" % size)

    def update(self, data: bytes) -> None:
        """The next bytes."""
        if self._hash is not None:
            self._hash.update(data)
        elif self._crc is not None:
            self._crc = _crc(self._algorithm, data, self._crc)

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""
        if self._hash is not None:
            return self._hash.hexdigest()
        width = 16 if self._algorithm == CRC64_NVME else 8
        return f"{self._crc or 0:0{width}x}"


def _crc(algorithm: str, data: bytes, before: int) -> int:
    if algorithm == CRC32:
        return zlib.crc32(data, before)
    from awscrt import checksums

    function = checksums.crc64nvme if algorithm == CRC64_NVME else checksums.crc32c
    return int(function(data, before))
