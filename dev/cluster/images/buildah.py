"""Runs buildah with its storage in the cache folder, isolation by chroot, and no mount left behind."""

import contextlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine.locks import locked
from dev.cluster.machine.mounts import unmount_below
from dev.cluster.machine.system_path import environment
from dev.cluster.progress import following

_FIXED_FOLDER = "/var/lib/containers"
# buildah copies itself into sealed memory; the kernel refuses the seal now and then while it holds a page (runc issue 2059).
_PASSING = "sealing memfd copy: Device or resource busy"
_TRIES = 4


class BuildError(RuntimeError):
    """An image could not be built; the message holds the end of the build's output."""


def storage_dir() -> Path:
    """Where buildah keeps images and layers between builds."""
    return paths.cache_dir() / "buildah"


def lock_file() -> Path:
    """Held by whoever builds images or removes them."""
    return storage_dir() / "lock"


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Around any number of `buildah` calls: one builder at a time, and no mount of the storage driver stays."""
    _own_folder().mkdir(parents=True, exist_ok=True)
    with locked(lock_file(), "another process builds images"):
        existed = Path(_FIXED_FOLDER).is_dir()
        Path(_FIXED_FOLDER).mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            unmount_below(storage_dir())
            if not existed:
                with contextlib.suppress(OSError):  # somebody else's by now, or still the place of a mount
                    Path(_FIXED_FOLDER).rmdir()


def build(
    context: Path, dockerfile: Path, tag: str, log: Path, options: Sequence[str] = (), pull_never: bool = True
) -> None:
    """`buildah bud` of one Dockerfile; the network is the host's, layers are cached. Raises BuildError."""
    if log.exists():
        # The pruning of layers looks at the last two builds of an image.
        log.replace(log.with_suffix(".previous.log"))
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


def file_stem(reference: str) -> str:
    """How files that belong to an image begin."""
    return re.sub(r"[^a-z0-9.-]+", "_", reference)


def has_image(tag: str) -> bool:
    """Whether buildah's storage holds an image of this name. Needs no session: it reads only."""
    if not storage_dir().is_dir():
        return False
    # In a mount namespace of its own, since even this mounts the storage.
    argv = ["unshare", "--mount", "buildah", *_places(), "inspect", "--type", "image", tag]
    return subprocess.run(argv, env=_environment(), capture_output=True, check=False).returncode == 0


def listed_images() -> str:
    """All images and layers in the storage, as JSON; empty when they cannot be listed."""
    done = subprocess.run(
        _command(["images", "--all", "--json"]),
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def remove(references: Sequence[str]) -> None:
    """Remove names, and layers by their ids, one after the other; one that others are built on stays."""
    subprocess.run(_command(["rmi", *references]), env=_environment(), capture_output=True, check=False)


def _command(argv: Sequence[str]) -> list[str]:
    """The command line of buildah, in a mount namespace in which the one folder that root cannot move is ours.

    What buildah knows of blobs it keeps in /var/lib/containers whenever it is run by root, whatever its settings.
    """
    mount = f'mount --bind "$0" {_FIXED_FOLDER} && exec "$@"'
    return [
        *("unshare", "--mount", "sh", "-c", mount, str(_own_folder())),
        *("buildah", *_places(), *argv),
    ]


def _places() -> list[str]:
    return ["--root", str(storage_dir() / "root"), "--runroot", str(storage_dir() / "run")]


def _own_folder() -> Path:
    return storage_dir() / "containers"


def _environment() -> dict[str, str]:
    """Without the settings of the user's own builds, which ours must not depend on."""
    foreign = ("BUILDAH_ISOLATION", "STORAGE_DRIVER")
    return {name: value for name, value in environment().items() if name not in foreign}


def _run(argv: Sequence[str], log: Path, what: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with following(what, log, "STEP "):
        for _ in range(_TRIES):
            code, said = _once(argv, log)
            if not code:
                return
            if _PASSING not in said:
                break
    tail = "\n".join(said.splitlines()[-25:])
    raise BuildError(f"{what} failed (buildah exit code {code}); the end of {log}:\n{tail}")


def _once(argv: Sequence[str], log: Path) -> tuple[int, str]:
    """The exit code of one run, and all it said."""
    with log.open("w") as output:
        done = subprocess.run(
            _command(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            check=False,
        )
    return done.returncode, log.read_text(errors="replace") if done.returncode else ""
