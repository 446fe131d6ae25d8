"""Removes from the cache what no present build uses: old programs, base systems, and layers of images.

Of each kind what was used last stays, and the one before it, so that two branches do not take each other's builds away.
What a running cluster uses stays too, and so does everything that was used within a day: another command may just have
found it.
"""

import contextlib
import json
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev.cluster import paths
from dev.cluster.images import buildah
from dev.cluster.images.base_image import PAUSE_IMAGE, PYTHON_REPOSITORY
from dev.cluster.machine.locks import locked_if_free
from dev.cluster.programs import build, packages
from dev.cluster.progress import Progress

KEPT: Final = 2
_UNUSED_S: Final = 24 * 3600.0
_DIGEST = re.compile(r"-?[0-9a-f]{12,16}$")
_SHORT = 11
"""Buildah's output names an image by 11, 12 or all 64 digits of its id."""


@dataclass(frozen=True)
class Entry:
    """A file or folder in the cache: its kind (its name without the digest), and when it was used last (epoch)."""

    path: Path
    kind: str
    used: float


@dataclass(frozen=True)
class Stored:
    """An image in buildah's storage: its id, its names (none: a layer that builds reuse), when it was made (epoch)."""

    id: str
    names: tuple[str, ...]
    created: float


def prune(progress: Callable[[str], None] = print) -> None:
    """Remove what is old, and tell it. What somebody adds to right now is left for the next time."""
    for lock, folders in (
        (build.lock_file(), [paths.cache_dir() / "bin"]),
        (packages.lock_file(), [paths.downloads_dir()]),
    ):
        with locked_if_free(lock) as free:
            if free:
                _remove(old_entries(_entries(folders), time.time()), progress)
    if buildah.storage_dir().is_dir() and os.geteuid() == 0 and shutil.which("buildah"):
        with locked_if_free(buildah.lock_file()) as free:
            pass
        if not free:
            return
        with buildah.session():
            folders = [paths.cache_dir() / "base"]
            pauses = (paths.cache_dir() / "images").glob("tierwright-pause-*.tar")
            _remove(old_entries([*_entries(folders), *map(_entry, pauses)], time.time()), progress)
            _prune_images(progress)


def old_entries(entries: Iterable[Entry], now: float) -> list[Path]:
    """Of each kind, all but the `KEPT` that were used last and those that were used within a day."""
    kinds: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        kinds[entry.kind].append(entry)
    ranked = (sorted(group, key=lambda each: -each.used) for group in kinds.values())
    return [entry.path for group in ranked for entry in group[KEPT:] if now - entry.used > _UNUSED_S]


def old_images(stored: Collection[Stored], used: Collection[str], archives: Collection[str]) -> list[str]:
    """What `buildah rmi` is to remove, children before their parents.

    Args:
        stored: everything in buildah's storage.
        used: ids, of `_SHORT` digits at least, of the layers that the last two builds of each image made or reused.
        archives: names of the images whose archive is in the cache.
    """
    layers = {each[:_SHORT] for each in used}
    newest_first = sorted(stored, key=lambda each: -each.created)
    pythons = [each for each in newest_first if _is_python(each)][:KEPT]
    kept = {*archives, PAUSE_IMAGE, *(name for each in pythons for name in each.names)}
    gone = []
    for each in newest_first:
        if each.names:
            gone += [name for name in each.names if name not in kept]
        elif each.id[:_SHORT] not in layers:
            gone.append(each.id)
    return gone


def layers_in(log: str) -> set[str]:
    """The ids of all layers that a build made or reused, from its output."""
    return set(re.findall(r"^--> (?:Using cache )?([0-9a-f]{11,64})$", log, flags=re.MULTILINE))


def images_in(listed: str) -> list[Stored]:
    """What is in buildah's storage (output of `buildah images --all --json`)."""
    found = json.loads(listed or "null") or []
    return [Stored(each["id"], tuple(each["names"] or ()), each["created"]) for each in found]


def _is_python(stored: Stored) -> bool:
    return any(name.startswith(f"{PYTHON_REPOSITORY}:") for name in stored.names)


def _entries(folders: Iterable[Path]) -> Iterator[Entry]:
    for folder in folders:
        yield from (_entry(path) for path in folder.glob("*") if path.is_dir() and _DIGEST.search(path.name))


def _entry(path: Path) -> Entry:
    return Entry(path, f"{path.parent.name}/{_DIGEST.sub('', path.stem)}", path.stat().st_mtime)


def _remove(old: Iterable[Path], progress: Callable[[str], None]) -> None:
    for path in old:
        if _in_use(path):
            continue
        size = sum(file.lstat().st_size for file in [path, *path.rglob("*")] if not file.is_dir()) / 2**20
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        progress(f"removed {path.parent.name}/{path.name} ({size:.0f} MiB), which no present build uses")


def _in_use(path: Path) -> bool:
    """Whether a process runs a program of that folder, or a cluster's wrapper calls one."""
    for link in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(path):
                return True
    wrappers = paths.clusters_dir().glob("*/tools/*")
    return any(str(path) in wrapper.read_text(errors="replace") for wrapper in wrappers)


def _prune_images(progress: Callable[[str], None]) -> None:
    logs = [*(paths.cache_dir() / "logs").glob("build-*.log"), *(paths.cache_dir() / "base").glob("*/*.log")]
    used = {layer for log in logs for layer in layers_in(log.read_text(errors="replace"))}
    archives = (paths.cache_dir() / "images").glob("*.tar")
    stems = {_DIGEST.sub("", archive.stem) for archive in archives}
    stored = images_in(buildah.listed_images())
    named = {name for each in stored for name in each.names if buildah.file_stem(name) in stems}
    if gone := old_images(stored, used, named):
        with Progress(f"removing {len(gone)} images and layers of earlier builds"):
            buildah.remove(gone)
        progress(f"removed {len(gone)} images and layers of earlier builds, which no present one uses")
