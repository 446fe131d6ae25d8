"""Finds Prometheus and promtool, or unpacks the system's package into the cache: nothing is installed and no service starts."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev.cluster.paths import cache_dir

INSTALL: Final = "apt-get install -y --no-install-recommends prometheus"
_NO_APT: Final = "TIERWRIGHT_NO_APT"
_MOST_SECONDS: Final = 300


class PrometheusMissingError(RuntimeError):
    """There is no Prometheus and none can be had; the message holds the one command that installs it."""


@dataclass(frozen=True)
class Programs:
    """The server and its tool, of one version."""

    server: Path
    tool: Path


def provide() -> Programs:
    """Both programs: from PATH, else from the cache, else out of the package `prometheus` of Debian or Ubuntu.

    The package is fetched and unpacked below the cache folder, which needs no root; TIERWRIGHT_NO_APT=1 forbids it.
    Raises PrometheusMissingError where there is no apt, or it fails.
    """
    installed = shutil.which("prometheus"), shutil.which("promtool")
    if installed[0] and installed[1]:
        return Programs(Path(installed[0]), Path(installed[1]))
    folder = cache_dir() / "prometheus"
    if not (found := _unpacked(folder)):
        _fetch(folder)
        found = _unpacked(folder)
    if not found:
        raise PrometheusMissingError(f"the package holds no prometheus and promtool; install with: {INSTALL}")
    return found


def _unpacked(folder: Path) -> Programs | None:
    programs = Programs(folder / "usr" / "bin" / "prometheus", folder / "usr" / "bin" / "promtool")
    return programs if programs.server.is_file() and programs.tool.is_file() else None


def _fetch(folder: Path) -> None:
    """Fetch the package and unpack it into ``folder``, whole or not at all."""
    if os.environ.get(_NO_APT) or not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise PrometheusMissingError(f"no prometheus and promtool here; install with: {INSTALL}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        download = Path(name)
        if (words := _run(["apt-get", "download", "prometheus"], download)) and os.geteuid() == 0:
            _run(["apt-get", "update"], download)
            words = _run(["apt-get", "download", "prometheus"], download)
        packages = list(download.glob("prometheus_*.deb"))
        if not packages:
            raise PrometheusMissingError(f"apt-get gave no prometheus ({words}); install with: {INSTALL}")
        unpacked = download / "unpacked"
        if words := _run(["dpkg-deb", "--extract", str(packages[0]), str(unpacked)], download):
            raise PrometheusMissingError(f"the package cannot be unpacked ({words}); install with: {INSTALL}")
        try:
            unpacked.rename(folder)
        except OSError:  # another process was quicker
            if not _unpacked(folder):
                raise


def _run(command: list[str], folder: Path) -> str:
    """Nothing when the command succeeded, else its last line."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS
    )
    if not done.returncode:
        return ""
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
