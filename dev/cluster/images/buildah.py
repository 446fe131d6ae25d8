"""Runs buildah with its storage in the cache folder, isolation by chroot, and no mount left behind."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine.locks import locked
from dev.cluster.machine.mounts import unmount_below
from dev.cluster.machine.system_path import environment
from dev.cluster.progress import following


class BuildError(RuntimeError):
    """An image could not be built; the message holds the end of the build's output."""


def storage_dir() -> Path:
    """Where buildah keeps images and layers between builds."""
    return paths.cache_dir() / "buildah"


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Around any number of `buildah` calls: one builder at a time, and no mount of the storage driver stays."""
    storage_dir().mkdir(parents=True, exist_ok=True)
    with locked(storage_dir() / "lock", "another process builds images"):
        try:
            yield
        finally:
            unmount_below(storage_dir())


def build(
    context: Path, dockerfile: Path, tag: str, log: Path, options: Sequence[str] = (), pull_never: bool = True
) -> None:
    """`buildah bud` of one Dockerfile; the network is the host's, layers are cached. Raises BuildError."""
    argv = ["bud", "--isolation", "chroot", "--network", "host", "--layers", "--format", "docker"]
    argv += ["--pull-never"] if pull_never else []
    _run([*argv, *options, "-t", tag, "-f", str(dockerfile), str(context)], log, f"building {tag}")


def export(tag: str, archive: Path, log: Path) -> None:
    """Write the image as a docker-archive, whole or not at all."""
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    _run(["push", "-q", tag, f"docker-archive:{partial}:{tag}"], log, f"exporting {tag}")
    partial.replace(archive)


def has_image(tag: str) -> bool:
    """Whether buildah's storage holds an image of this name."""
    done = subprocess.run(
        _command(["inspect", "--type", "image", tag]), env=environment(), capture_output=True, check=False
    )
    return done.returncode == 0


def _command(argv: Sequence[str]) -> list[str]:
    root = storage_dir()
    return ["buildah", "--root", str(root / "root"), "--runroot", str(root / "run"), *argv]


def _run(argv: Sequence[str], log: Path, what: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    # Settings of the user's own builds, which ours must not depend on.
    env = {
        name: value
        for name, value in environment().items()
        if name not in ("BUILDAH_ISOLATION", "STORAGE_DRIVER")
    }
    with log.open("w") as output, following(what, log, "STEP "):
        done = subprocess.run(
            _command(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, check=False
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise BuildError(f"{what} failed (buildah exit code {done.returncode}); the end of {log}:\n{tail}")
