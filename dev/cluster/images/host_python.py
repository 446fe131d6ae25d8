"""Finds a CPython on this machine that can be copied into an image, and the Debian packages its libraries come from."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROBE = (
    "import bz2, ctypes, hashlib, lzma, sqlite3, ssl, uuid, zlib, json, sys, sysconfig;"
    "print(json.dumps([sys.implementation.name, list(sys.version_info[:3]), sys.base_prefix,"
    " bool(sysconfig.get_config_var('Py_GIL_DISABLED'))]))"
)
LEFT_OUT = ("_tkinter", "nis.")
"""Extension modules that a server image has no use for and that would draw in X11 and RPC libraries."""
_OLDEST = (3, 11)
_IMAGE_SPEAKS = (3, 12)
_PROGRAM = re.compile(r"python3\.(\d+)")


@dataclass(frozen=True)
class HostPython:
    """A CPython that lives in a folder of its own: `prefix`, its version, and the program within."""

    prefix: Path
    version: tuple[int, int, int]

    @property
    def short(self) -> str:
        """Major and minor, e.g. `3.12`."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def program(self) -> Path:
        """The interpreter itself."""
        return self.prefix / "bin" / f"python{self.short}"


def find_pythons() -> list[HostPython]:
    """Every CPython >= 3.11 of this machine that can be copied, the best one for the image first."""
    found = {python.prefix: python for python in map(_probe, _programs()) if python}
    return rank(found.values())


def rank(pythons: Iterable[HostPython]) -> list[HostPython]:
    """Order by closeness to the Python that the project's images are made for, then by newest patch."""

    def distance(python: HostPython) -> tuple[int, int, int]:
        minor = python.version[1] - _IMAGE_SPEAKS[1]
        return abs(minor), 0 if minor > 0 else 1, -python.version[2]

    return sorted((python for python in pythons if python.version[:2] >= _OLDEST), key=distance)


def packages_of(python: HostPython) -> list[str] | None:
    """Debian packages that hold the shared libraries this Python needs, sorted.

    None when they cannot be told: no dpkg, or a library that no package owns.
    """
    folder = python.prefix / "lib" / f"python{python.short}" / "lib-dynload"
    modules = [module for module in sorted(folder.glob("*.so")) if not module.name.startswith(LEFT_OUT)]
    listed = subprocess.run(["ldd", python.program, *modules], capture_output=True, text=True, check=False)
    found = sorted({Path(word) for word in re.findall(r"=> (/\S+)", listed.stdout)})
    libraries = [library for library in found if not library.is_relative_to(python.prefix)]
    owners = _owners([path for library in libraries for path in _spellings(library)])
    packages: set[str] = set()
    for library in libraries:
        known = [owners[path] for path in _spellings(library) if path in owners]
        if not known:
            return None
        packages.add(known[0])
    return sorted(packages)


def _spellings(library: Path) -> list[str]:
    """The paths that dpkg may know a library by: before and after links, with and without /usr."""
    paths = [str(library), str(library.resolve())]
    return [*paths, f"/usr{library}", *(path.removeprefix("/usr") for path in paths)]


def _owners(paths: list[str]) -> dict[str, str]:
    try:
        # One call for all, since each reads dpkg's whole database; it fails when it knows not all, which is usual.
        done = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    lines = (line.partition(": ") for line in done.stdout.splitlines())
    return {path: owner.split(",")[0].split(":")[0] for owner, _, path in lines}


def _programs() -> list[Path]:
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    folders = [Path(sys.base_prefix), Path("/usr/local"), *pyenv.glob("versions/*")]
    folders += [
        *(home / ".local/share/uv/python").glob("*"),
        *Path("/opt/hostedtoolcache/Python").glob("*/*"),
    ]
    programs = [program for folder in folders for program in sorted((folder / "bin").glob("python3.*"))]
    return [program for program in programs if _PROGRAM.fullmatch(program.name)]


def _probe(program: Path) -> HostPython | None:
    match = _PROGRAM.fullmatch(program.name)
    if match is None or int(match[1]) < _OLDEST[1]:
        return None
    try:
        done = subprocess.run(
            [program, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=20, check=True
        )
        name, version, prefix, no_gil = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    # A distribution's own Python is spread over /usr and cannot be copied as a folder.
    if name != "cpython" or no_gil or Path(prefix) == Path("/usr"):
        return None
    return HostPython(Path(prefix).resolve(), (version[0], version[1], version[2]))
