"""Decides where Kubernetes' programs come from: a folder that the user names, the cache, else a build.

A running cluster that KUBECONFIG names comes before all of these; see `given.py`.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.programs import build
from dev.cluster.programs.versions import parse

KUBE_BIN = "TIERWRIGHT_KUBE_BIN"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
REAL_NODES = ("kubelet", "kube-proxy", "coredns")


class SourceError(RuntimeError):
    """The programs that the user named cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Programs:
    """A folder with Kubernetes' programs, the version they report (`v1.36.3`), and in words where they come from."""

    bin_dir: Path
    version: str
    origin: str


def programs(needed: tuple[str, ...] = CONTROL_PLANE, environ: Mapping[str, str] | None = None) -> Programs:
    """Find or build the programs.

    Raises SourceError for a named folder that cannot be used, build.BuildError and packages.PackageError.
    """
    env = os.environ if environ is None else environ
    if named := env.get(KUBE_BIN):
        return _named(Path(named).expanduser(), needed)
    module = build.KUBERNETES
    version = build.pinned_version(module)
    if folder := build.cached(module):
        return Programs(folder, version, f"the cache ({folder})")
    return Programs(build.built(module), version, "a build of the pinned Go modules")


def kwok(environ: Mapping[str, str] | None = None) -> Path:
    """The program kwok: from the folder that the user names when it is there, from the cache, else built."""
    env = os.environ if environ is None else environ
    if named := env.get(KUBE_BIN):
        program = Path(named).expanduser() / "kwok"
        if os.access(program, os.X_OK):
            return program
    return build.built(build.KWOK) / "kwok"


def _named(folder: Path, needed: tuple[str, ...]) -> Programs:
    missing = [program for program in needed if not os.access(folder / program, os.X_OK)]
    if missing:
        raise SourceError(f"{KUBE_BIN}={folder}: not there or not executable: {', '.join(missing)}")
    found = {program: _reported(folder / program) for program in needed if program.startswith("kube")}
    if problem := disagreement(found):
        raise SourceError(f"{KUBE_BIN}={folder}: {problem}")
    version = parse(next(iter(found.values())))
    return Programs(folder.absolute(), f"v{version}", f"{KUBE_BIN} ({folder})")


def disagreement(reported: Mapping[str, str]) -> str | None:
    """What is wrong with the versions that programs report: none at all, or not all of one minor version."""
    versions = {program: parse(text) for program, text in reported.items()}
    if silent := [program for program, version in versions.items() if version is None]:
        return f"no version reported by {', '.join(silent)}; do they run on this machine?"
    if len({version[:2] for version in versions.values() if version}) > 1:
        listed = ", ".join(f"{program} {version}" for program, version in versions.items())
        return f"the programs are of different versions: {listed}"
    return None


def _reported(program: Path) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
