"""Fetches a source into a folder: look, list, choose, check the space, download side by side, mark complete."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from tierwright_worker.errors import SettingsError, SourceUnreachableError
from tierwright_worker.sources import volume
from tierwright_worker.sources.download import Course, Download, StoppedError
from tierwright_worker.sources.folder import FolderRemote
from tierwright_worker.sources.progress import Progress, size_words
from tierwright_worker.sources.remote import Remote, RemoteFile, TransientError
from tierwright_worker.sources.retry import Patience
from tierwright_worker.sources.selection import Selection, select
from tierwright_worker.sources.source import BucketSource, FolderSource, HubSource, Source


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`gguf`: the one to take of several. `parallel`: files at once. `every`: seconds between two lines of progress."""

    gguf: str | None = None
    parallel: int = 4
    patience: Patience = field(default_factory=Patience)
    every: float = 5.0


def fetch(source: Source, to: Path, settings: FetchSettings, say: Callable[[str], None]) -> None:
    """Bring a model's files into the folder `to`; nothing is done, and no network used, where it is complete already.

    Raises:
        WorkerError: of the kind that says what is wrong: the volume, the source, access, a file's content.
    """
    if isinstance(source, FolderSource) and source.path.absolute() == to.absolute():
        raise SettingsError(f"{source} lies in {to} already")
    with volume.volume_errors(to):
        if volume.complete(to, str(source)):
            say(f"{source} is in {to} already")
            return
        to.mkdir(parents=True, exist_ok=True)
        with volume.locked(to, f"another process fetches into {to}; waiting for it"):
            if volume.complete(to, str(source)):
                say(f"{source} is in {to} already")
                return
            remote = open_remote(source)
            selection = select(
                _listed(remote, str(source), settings.patience, say), gguf=settings.gguf, where=str(source)
            )
            _say_selection(selection, source, to, say)
            volume.begin(to)
            _download_all(remote, selection, str(source), to, settings, say)
            volume.finish(to, str(source), selection.chosen)
    say(f"{source} is complete in {to}")


def open_remote(source: Source) -> Remote:
    """The reader of a source. Each brings a library of its own, loaded when it is needed."""
    if isinstance(source, HubSource):
        from tierwright_worker.sources.hub import HubRemote

        return HubRemote(source)
    if isinstance(source, BucketSource):
        from tierwright_worker.sources.bucket import BucketRemote

        return BucketRemote(source)
    return FolderRemote(source)


def _listed(
    remote: Remote, where: str, patience: Patience, say: Callable[[str], None]
) -> tuple[RemoteFile, ...]:
    failures = 0
    while True:
        try:
            return remote.files()
        except TransientError as error:
            failures += 1
            pause = patience.wait(failures, error.retry_after, random.random())  # noqa: S311 - spreads retries
            if pause is None:
                raise SourceUnreachableError(
                    f"{where} does not answer after {failures} tries: {error}; "
                    "check its address (HF_ENDPOINT, AWS_ENDPOINT_URL_S3) and the network, then run this again"
                ) from error
            say(f"{where}: {error}; next try in {pause:.0f} s")
            time.sleep(pause)


def _say_selection(selection: Selection, source: Source, to: Path, say: Callable[[str], None]) -> None:
    say(f"fetching {source} into {to}: {len(selection.chosen)} files, {size_words(selection.size)}")
    reasons: dict[str, list[RemoteFile]] = {}
    for file, why in selection.skipped:
        reasons.setdefault(why, []).append(file)
    for why, files in reasons.items():
        names = ", ".join(file.path for file in files[:5]) + (", ..." if len(files) > 5 else "")
        say(f"left out, {size_words(sum(file.size for file in files))} ({why}): {names}")
    unchecked = [file.path for file in selection.chosen if file.digest is None]
    if unchecked:
        say(
            f"the source gives no digest of {len(unchecked)} files; their size alone is checked: {', '.join(unchecked[:5])}"
        )


def _download_all(
    remote: Remote,
    selection: Selection,
    where: str,
    to: Path,
    settings: FetchSettings,
    say: Callable[[str], None],
) -> None:
    stop = threading.Event()
    progress = Progress(selection.size, say, time.monotonic, settings.every)
    course = Course(remote, where, to, settings.patience, progress, say, stop)
    downloads = [Download(course, file) for file in selection.chosen]
    volume.check_space(to, sum(download.missing() for download in downloads))
    with ThreadPoolExecutor(settings.parallel, thread_name_prefix="fetch") as pool:
        running = [pool.submit(download.run) for download in downloads]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    failures = [error for each in done if (error := each.exception()) is not None]
    for error in sorted(failures, key=lambda error: isinstance(error, StoppedError)):
        raise error
