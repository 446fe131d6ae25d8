"""Brings one file onto the volume: goes on where it was cut, checks the digest, and shows it only once it is whole."""

import hashlib
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tierwright_worker.errors import CorruptModelError, SourceUnreachableError
from tierwright_worker.sources.progress import Progress
from tierwright_worker.sources.remote import (
    CannotResumeError,
    Hasher,
    Remote,
    RemoteFile,
    TransientError,
)
from tierwright_worker.sources.retry import Patience
from tierwright_worker.sources.volume import WORK

_BLOCK = 1 << 20


class StoppedError(Exception):
    """Another file has failed, so this one need not go on."""


@dataclass(frozen=True, slots=True)
class Course:
    """What all downloads of one fetch share. `stop` ends them between two pieces, and any wait at once."""

    remote: Remote
    where: str
    folder: Path
    patience: Patience
    progress: Progress
    say: Callable[[str], None]
    stop: threading.Event


class Download:
    """One file on its way. What has come so far lies in a file named by path and content, so that it can never be continued with another content."""

    def __init__(self, course: Course, file: RemoteFile) -> None:
        """Nothing is read or written yet."""
        self._course, self._file = course, file
        key = hashlib.sha256(f"{file.path}\0{file.identity}\0{file.size}".encode()).hexdigest()[:32]
        work = course.folder / WORK
        self._partial, self._done = work / f"{key}.part", work / f"{key}.done"
        self._target = course.folder / file.path
        self._hasher: Hasher | None = None

    def missing(self) -> int:
        """Bytes that are still to come."""
        if self._is_there():
            return 0
        return self._file.size - min(self._partial_size(), self._file.size)

    def run(self) -> None:
        """Until the file is in its place.

        Raises:
            SourceUnreachableError: it broke off too often without a new byte.
            CorruptModelError: it came twice, and twice with the wrong content.
            StoppedError: told to stop.
            WorkerError: what the remote says cannot work.
        """
        if self._is_there():
            self._course.progress.found(self._file.size)
            return
        self._count_what_is_there()
        for _ in range(2):
            self._receive_all()
            if self._matches():
                self._put_in_place()
                return
            self._course.say(f"{self._file.path} came with the wrong content; fetching it once more")
            self._drop()
        raise CorruptModelError(
            f"{self._course.where}: {self._file.path} has another content than its {self._digest_name()} says, twice; "
            "something on the way changes it, or the source is damaged"
        )

    def _is_there(self) -> bool:
        """Whether an earlier run brought it, or the volume holds it from elsewhere with the right digest."""
        try:
            if self._target.stat().st_size != self._file.size:
                return False
        except FileNotFoundError:
            return False
        if self._done.is_file():
            return True
        if self._file.digest is None:
            return False
        hasher = Hasher(self._file.digest.algorithm, self._file.size)
        _hash_file(self._target, hasher)
        if hasher.hexdigest() != self._file.digest.value:
            return False
        self._done.touch()
        return True

    def _count_what_is_there(self) -> None:
        size = self._partial_size()
        if size > self._file.size:
            self._partial.unlink()
            size = 0
        self._course.progress.found(size)
        self._hasher = self._new_hasher()
        if size and self._hasher is not None:
            _hash_file(self._partial, self._hasher)

    def _receive_all(self) -> None:
        failures = 0
        while self._partial_size() < self._file.size or not self._partial.exists():
            before = self._partial_size()
            try:
                self._receive(before)
                continue
            except CannotResumeError:
                self._drop()
                reason, asked = "the source has nothing to go on from; beginning anew", None
            except TransientError as error:
                reason, asked = str(error), error.retry_after
            failures = 1 if self._partial_size() > before else failures + 1
            jitter = random.random()  # noqa: S311 - spreads retries, hides nothing
            wait = self._course.patience.wait(failures, asked, jitter)
            if wait is None:
                raise SourceUnreachableError(
                    f"{self._course.where}: {self._file.path} broke off {failures} times in a row: {reason}; "
                    "what came so far is kept, and the next run goes on from there"
                )
            self._course.say(f"{self._file.path}: {reason}; next try in {wait:.0f} s")
            if self._course.stop.wait(wait):
                raise StoppedError

    def _receive(self, start: int) -> None:
        with self._course.remote.open(self._file, start) as opened:
            if opened.start != start:
                self._drop()
            with self._partial.open("ab") as out:
                for chunk in opened.chunks:
                    if self._course.stop.is_set():
                        raise StoppedError
                    room = self._file.size - out.tell()
                    if len(chunk) > room:
                        chunk = chunk[:room]
                    out.write(chunk)
                    if self._hasher is not None:
                        self._hasher.update(chunk)
                    self._course.progress.received(len(chunk))
        if self._partial_size() < self._file.size:
            raise TransientError("the connection ended before the file did")

    def _matches(self) -> bool:
        digest = self._file.digest
        return digest is None or self._hasher is None or self._hasher.hexdigest() == digest.value

    def _put_in_place(self) -> None:
        with self._partial.open("rb") as file:
            os.fsync(file.fileno())
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._done.touch()
        self._partial.replace(self._target)

    def _drop(self) -> None:
        self._course.progress.dropped(self._partial_size())
        self._partial.unlink(missing_ok=True)
        self._hasher = self._new_hasher()

    def _new_hasher(self) -> Hasher | None:
        digest = self._file.digest
        return Hasher(digest.algorithm, self._file.size) if digest is not None else None

    def _partial_size(self) -> int:
        try:
            return self._partial.stat().st_size
        except FileNotFoundError:
            return 0

    def _digest_name(self) -> str:
        return self._file.digest.algorithm if self._file.digest else "size"


def _hash_file(path: Path, hasher: Hasher) -> None:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            hasher.update(block)
