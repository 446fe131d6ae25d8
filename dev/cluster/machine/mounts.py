"""Finds, releases and deletes mounts below a folder; a tree is never deleted while something is mounted in it."""

import re
import shutil
import subprocess
import time
from pathlib import Path

from dev.cluster.machine.system_path import environment

_OCTAL = re.compile(r"\\([0-7]{3})")


class StillMountedError(OSError):
    """A mount below a folder could not be released, so the folder was left alone."""


def mounts_below(folder: Path, table: str | None = None) -> list[Path]:
    """Mount points at or below `folder`, the innermost first. `table`: text of /proc/self/mounts (read when None)."""
    if table is None:
        proc = Path("/proc/self/mounts")
        table = proc.read_text() if proc.exists() else ""
    points = [
        _OCTAL.sub(lambda m: chr(int(m[1], 8)), line.split(" ")[1]) for line in table.splitlines() if line
    ]
    return [Path(point) for point in reversed(points) if Path(point).is_relative_to(folder)]


def unmount_below(folder: Path, deadline_s: float = 5.0) -> None:
    """Release every mount at or below `folder`. Raises StillMountedError when one stays busy."""
    deadline = time.monotonic() + deadline_s
    while left := mounts_below(folder.resolve()):
        for point in left:
            subprocess.run(["umount", str(point)], env=environment(), capture_output=True, check=False)
        if not mounts_below(folder.resolve()):
            return
        if time.monotonic() > deadline:
            names = ", ".join(str(point) for point in left[:5])
            raise StillMountedError(
                f"still mounted below {folder}: {names} (see `fuser -vm` for who uses them)"
            )
        time.sleep(0.1)


def remove_tree(folder: Path) -> None:
    """Delete `folder` with all below it, mounts released first. Raises StillMountedError, OSError; absent is fine."""
    if not folder.exists():
        return
    unmount_below(folder)
    shutil.rmtree(folder)
