"""Where dev.cluster keeps its files: one cache folder, and below it one run folder per cluster name."""

import contextlib
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The one folder that outlives a cluster: `$TIERWRIGHT_CACHE`, else `tierwright` below the user's cache folder."""
    env = os.environ if environ is None else environ
    if chosen := env.get("TIERWRIGHT_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "tierwright"


def check_name(name: str) -> str:
    """Return `name` when it can name a cluster.

    Raises ValueError otherwise. Twenty characters are the limit so that unix sockets below the run folder
    stay under the kernel's 108 bytes.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"cluster name {name!r}: use 1 to 20 lower-case letters, digits and dashes, "
            "with a letter or digit at both ends"
        )
    return name


def clusters_dir() -> Path:
    """The folder that holds one run folder per cluster name."""
    return cache_dir() / "clusters"


def run_dir(name: str) -> Path:
    """The folder of a running cluster: certificates, etcd data, logs, process records. Removed by `down`."""
    return clusters_dir() / check_name(name)


def lock_file(name: str) -> Path:
    """Locked while a cluster of this name is being started or stopped.

    A few files serve all names, so that the names of test runs do not pile up; never hold two of them at once.
    """
    return clusters_dir() / ".locks" / str(zlib.crc32(check_name(name).encode()) % 16)


def mark_used(path: Path) -> None:
    """Say that a thing in the cache is in use, which keeps it from being pruned; no matter where that may not be said."""
    with contextlib.suppress(OSError):
        os.utime(path)


def bin_dir(digest: str) -> Path:
    """Binaries built from the sources that `digest` stands for."""
    return cache_dir() / "bin" / digest


def downloads_dir() -> Path:
    """Toolchains and tools unpacked from packages, one folder per digest."""
    return cache_dir() / "tools"
