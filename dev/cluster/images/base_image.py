"""Makes the local stand-in for the image `python:3.12-slim`, and a pause image, without any registry.

A Debian made by debootstrap, plus a CPython >= 3.11 of this machine under /usr/local; where none can be copied,
debootstrap's own python3. Everything is cached by the digest of its inputs.
"""

import hashlib
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.images import buildah
from dev.cluster.images.host_python import LEFT_OUT, HostPython, find_pythons, packages_of
from dev.cluster.machine.mounts import remove_tree
from dev.cluster.machine.system_path import environment
from dev.cluster.progress import following

PAUSE_IMAGE = "localhost/tierwright-pause:1"
PYTHON_REPOSITORY = "localhost/tierwright-python"
_RECIPE = 1  # raise it when a change below must rebuild what is cached
_OWN_PYTHON = ("python3", "python3-pip", "python3-venv")
_NOT_IN_IMAGE: tuple[str, ...] = (
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./usr/share/doc/*",
    "./usr/share/man/*",
)
_NOT_IN_IMAGE += ("./usr/share/locale/*", "./var/log/*", "./proc/*", "./sys/*", "./dev/*", "./tmp/*")
_NOT_OF_PYTHON = (
    "test",
    "tests",
    "__pycache__",
    "idlelib",
    "tkinter",
    "turtledemo",
    "site-packages",
    "*.a",
    "*.o",
)
_CHECK = "import bz2, ctypes, hashlib, lzma, sqlite3, ssl, uuid, zlib"
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Debian:
    """What debootstrap is to make: suite, mirror, and packages beyond the minimal set."""

    suite: str
    mirror: str | None
    packages: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Twelve hex digits that change when the result would (the mirror does not matter)."""
        return _digest([_RECIPE, self.suite, self.packages, platform.machine()])


@dataclass(frozen=True)
class BaseImages:
    """Docker archives of the pause image and the reference of the Python image in buildah's storage."""

    python_image: str
    pause_archive: Path


def ensure_base_images(progress: Callable[[str], None] = print) -> BaseImages:
    """Make what is not cached yet.

    Raises buildah.BuildError with the end of the log when debootstrap or a build fails. Needs root.
    """
    python, debian = _choose(find_pythons())
    tag = f"{PYTHON_REPOSITORY}:{_digest([debian.digest, _fingerprint(python), python_dockerfile(python)])}"
    folder = paths.cache_dir() / "base" / debian.digest
    pause = paths.cache_dir() / "images" / f"tierwright-pause-{debian.digest}.tar"

    def is_there() -> bool:
        return pause.exists() and buildah.has_image(tag)

    if is_there():  # without waiting for somebody else's build
        for used in (pause, folder):
            paths.mark_used(used)
        return BaseImages(tag, pause)
    with buildah.session():
        if is_there():
            return BaseImages(tag, pause)
        ensure_debian(debian, folder, progress)
        _build_pause(folder, pause)
        shown = f"CPython {python.short} of {python.prefix}" if python else "Debian's own python3"
        progress(f"building the Python base image from {shown}")
        _build_python(folder, python, tag)
    return BaseImages(tag, pause)


def ensure_debian(debian: Debian, folder: Path, progress: Callable[[str], None]) -> None:
    """Make `folder`/debian.tar and `folder`/pause (a shell, sleep and their libraries), unless they are there."""
    if (folder / "complete").exists():
        return
    remove_tree(folder)
    folder.mkdir(parents=True)
    rootfs, log = folder / "rootfs", folder / "debootstrap.log"
    what = f"installing a minimal Debian {debian.suite} for images"
    progress(f"{what} (debootstrap, once)")
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(debian.packages)}"]
    with log.open("w") as output, following(what, log, "I: "):
        done = subprocess.run(
            [*argv, debian.suite, str(rootfs), *([debian.mirror] if debian.mirror else [])],
            env=environment(),
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise buildah.BuildError(
            f"debootstrap failed (exit code {done.returncode}); the end of {log}:\n{tail}"
        )
    _copy_pause(rootfs, folder / "pause")
    excludes = [f"--exclude={pattern}" for pattern in _NOT_IN_IMAGE]
    subprocess.run(["tar", *excludes, "-C", str(rootfs), "-cf", str(folder / "debian.tar"), "."], check=True)
    remove_tree(rootfs)
    (folder / "complete").touch()


def python_dockerfile(python: HostPython | None) -> str:
    """The Dockerfile of the Python image; its context holds debian.tar and, with a host Python, the folder python/."""
    if python is None:
        copy = "RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s python3 /usr/bin/python\n"
    else:
        links = f"ln -sf python{python.short} /usr/local/bin/python3 && ln -sf python3 /usr/local/bin/python"
        pip = "python3 -m ensurepip && ln -sf pip3 /usr/local/bin/pip"
        copy = f"COPY python/ /usr/local/\nENV PATH={_PATH}\nRUN ldconfig && {links} && {pip}\n"
    return (
        # The file that builds mount over; it would be left in images by the mount otherwise.
        f"FROM scratch\nADD debian.tar /\n{copy}RUN touch /etc/pip.conf\n"
        f'ENV PATH={_PATH} LANG=C.UTF-8\nRUN python3 -c "{_CHECK}" && pip --version\nCMD ["python3"]\n'
    )


def host_debian(os_release: str, apt_uris: Sequence[str]) -> tuple[str, str | None]:
    """Suite and mirror of this machine's Debian or Ubuntu, from /etc/os-release and apt's index targets.

    A machine of another kind gets Debian bookworm. None for the mirror means the one that debootstrap knows.
    """
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, flags=re.MULTILINE))
    suite, kind = fields.get("VERSION_CODENAME", ""), fields.get("ID", "")
    if not suite or kind not in ("debian", "ubuntu"):
        return "bookworm", None
    return suite, next((uri for uri in apt_uris if uri.rstrip("/").endswith(f"/{kind}")), None)


def _choose(pythons: Sequence[HostPython]) -> tuple[HostPython | None, Debian]:
    os_release = Path("/etc/os-release")
    text = os_release.read_text() if os_release.exists() else ""
    suite, mirror = host_debian(text, _apt_uris())
    if re.search(r"^ID=\"?(debian|ubuntu)\"?$", text, flags=re.MULTILINE):
        for python in pythons:
            if (packages := packages_of(python)) is not None:
                return python, Debian(suite, mirror, tuple(sorted({"ca-certificates", *packages})))
    return None, Debian(suite, mirror, ("ca-certificates", *_OWN_PYTHON))


def _apt_uris() -> list[str]:
    try:
        argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:
        return []


def _fingerprint(python: HostPython | None) -> list[str]:
    if python is None:
        return []
    library = python.prefix / "lib" / f"libpython{python.short}.so.1.0"
    files = [file for file in (python.program, library) if file.exists()]
    return [f"{python.version}", *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)]


def _copy_pause(rootfs: Path, target: Path) -> None:
    listed = subprocess.run(
        ["chroot", str(rootfs), "ldd", "/bin/dash", "/bin/sleep"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    libraries = set(re.findall(r"(/\S+) \(0x", listed.stdout))
    for name in ("/bin/dash", "/bin/sleep", *sorted(libraries)):
        copy = target / name.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        # Read through the chroot, since the links within are absolute and mean the image's own files.
        with copy.open("wb") as out:
            subprocess.run(["chroot", str(rootfs), "cat", name], env=environment(), stdout=out, check=True)
        copy.chmod(0o755)


def _build_pause(folder: Path, archive: Path) -> None:
    if archive.exists():
        return
    loop = "trap 'exit 0' TERM INT; while :; do /bin/sleep 86400 & wait $!; done"
    dockerfile = folder / "Dockerfile.pause"
    dockerfile.write_text(
        f"FROM scratch\nCOPY pause/ /\nENTRYPOINT {json.dumps(['/bin/dash', '-c', loop])}\n"
    )
    buildah.build(folder, dockerfile, PAUSE_IMAGE, folder / "pause.log")
    buildah.export(PAUSE_IMAGE, archive, folder / "pause-export.log")


def _build_python(folder: Path, python: HostPython | None, tag: str) -> None:
    copy = folder / "python"
    remove_tree(copy)
    if python:
        _copy_python(python, copy)
    dockerfile = folder / "Dockerfile.python"
    dockerfile.write_text(python_dockerfile(python))
    try:
        buildah.build(folder, dockerfile, tag, folder / "python.log")
    finally:
        remove_tree(copy)


def _copy_python(python: HostPython, target: Path) -> None:
    ignore = shutil.ignore_patterns(*_NOT_OF_PYTHON, *(f"{name}*" for name in LEFT_OUT))
    library = Path("lib") / f"python{python.short}"
    shutil.copytree(python.prefix / library, target / library, symlinks=True, ignore=ignore)
    (target / library / "site-packages").mkdir()
    for shared in (python.prefix / "lib").glob("libpython*.so*"):
        shutil.copy2(shared, target / "lib" / shared.name, follow_symlinks=False)
    (target / "bin").mkdir()
    shutil.copy2(python.program.resolve(), target / "bin" / python.program.name)
    if strip := shutil.which("strip"):
        binaries = [file for file in target.rglob("*.so*") if file.is_file() and not file.is_symlink()]
        binaries.append(target / "bin" / python.program.name)
        subprocess.run([strip, "--strip-unneeded", *binaries], capture_output=True, check=False)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
