"""Builds the pinned Go modules, Kubernetes' programs as one binary and kwok, into the cache, showing how far it is.

The cache folder's name is a digest of everything that decides the result, so a folder that exists is right and whole:
a build goes into a temporary folder that is renamed at the end.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine.locks import locked
from dev.cluster.programs import golang
from dev.cluster.progress import Progress, time_left

_HERE = Path(__file__).parent
_NETWORK_WORDS = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|network is unreachable|TLS handshake timeout|proxyconnect"
    r"|module lookup disabled"
)


class BuildError(RuntimeError):
    """A build failed; the message says why and what to do."""


@dataclass(frozen=True)
class Module:
    """A Go module of ours and what is built from it: `package` becomes `programs[0]`, the others are links to it."""

    name: str
    package: str
    programs: tuple[str, ...]
    measured: str = ""
    """How long a build took that found nothing in Go's cache, in words; empty where that was not measured."""

    @property
    def folder(self) -> Path:
        """Where go.mod lies."""
        return _HERE / self.name


KUBERNETES = Module(
    "kubernetes",
    ".",
    (
        "kubernetes",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kubectl",
        "coredns",
    ),
    "it took 5 minutes on two idle cores",
)
KWOK = Module("kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",))


def pinned_version(module: Module) -> str:
    """The version that go.mod pins of what the module is named after, e.g. `v1.36.3`."""
    found = re.search(rf"k8s\.io/{module.name} (v\S+)", (module.folder / "go.mod").read_text())
    if not found:
        raise BuildError(f"{module.folder / 'go.mod'} does not require k8s.io/{module.name}")
    return found[1]


def digest(module: Module, go_version: str) -> str:
    """Names the build: a hash over the module's files, the linker's flags and the toolchain's version."""
    total = hashlib.sha256(f"{go_version}\0{linker_flags(module)}".encode())
    for file in sorted([*module.folder.glob("go.*"), *module.folder.glob("*.go")]):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{module.name}-{total.hexdigest()[:16]}"


def linker_flags(module: Module) -> str:
    """No symbol tables, and the version that Kubernetes' programs report.

    -trimpath, or linker flags that reach packages, would miss what Go has cached and compile everything again.
    """
    if module is not KUBERNETES:
        return "-s -w"
    version = pinned_version(module)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return "-s -w" + "".join(
        f" -X k8s.io/component-base/version.{key}={value}" for key, value in values.items()
    )


def built(module: Module) -> Path:
    """The folder with the module's programs, from the cache, else built now (one build at a time).

    Raises BuildError, or packages.PackageError when no Go toolchain is to be had.
    """
    go = golang.toolchain(golang.wanted((module.folder / "go.mod").read_text()))
    target = paths.bin_dir(digest(module, go.version))
    if not target.is_dir():
        with locked(lock_file(), "another build is running"):
            if not target.is_dir():
                _build(module, go, target)
    paths.mark_used(target)
    return target


def lock_file() -> Path:
    """Held by whoever adds builds to the cache or removes them."""
    return paths.cache_dir() / "bin" / "build.lock"


def cached(module: Module) -> Path | None:
    """The folder with the module's programs if it is in the cache."""
    try:
        go = golang.toolchain(golang.wanted((module.folder / "go.mod").read_text()))
    except RuntimeError:
        return None
    target = paths.bin_dir(digest(module, go.version))
    if not target.is_dir():
        return None
    paths.mark_used(target)
    return target


def _build(module: Module, go: golang.Toolchain, target: Path) -> None:
    version = pinned_version(module)
    print(f"building {module.name} {version} with {go.version} (once; kept in {target})", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as temporary:
        folder = Path(temporary) / "bin"
        folder.mkdir()
        work = _download(module, go)
        if module.measured and work.stale > 0.9 * work.packages:
            print(f"{module.name}: {work.stale} packages to compile; {module.measured}", flush=True)
        _compile(module, go, folder / module.programs[0], work.stale)
        for link in module.programs[1:]:
            (folder / link).symlink_to(module.programs[0])
        folder.rename(target)
    size = (target / module.programs[0]).stat().st_size / 2**20
    print(
        f"built {module.name} in {time.monotonic() - began:.0f} s ({size:.0f} MiB) into {target}", flush=True
    )


@dataclass(frozen=True)
class Work:
    """How many packages a build consists of, and how many of them Go's cache lacks."""

    packages: int
    stale: int


def _download(module: Module, go: golang.Toolchain) -> Work:
    """Bring the modules that the build needs, and look how much there is to do."""
    seen = 0

    def note(line: str) -> str:
        nonlocal seen
        seen += line.startswith("go: downloading ")
        return f"{module.name}: {seen} modules downloaded"

    arguments = ["list", "-mod=readonly", "-deps", "-f", "{{.Stale}}", module.package]
    listing = _go(module, go, arguments, Progress(), note).split()
    return Work(len(listing), listing.count("true"))


def _compile(module: Module, go: golang.Toolchain, target: Path, total: int) -> None:
    compiled, began = 0, time.monotonic()

    def note(line: str) -> str:
        nonlocal compiled
        compiled += not line.startswith(("go: ", "#"))
        return compiling(module.name, compiled, total, time.monotonic() - began)

    flags = linker_flags(module)
    arguments = ["build", "-mod=readonly", "-v", "-ldflags", flags, "-o", str(target), module.package]
    _go(module, go, arguments, Progress(), note)


def compiling(name: str, compiled: int, total: int, elapsed_s: float) -> str:
    """How far a build is; go names a package when it begins with it, so after the last one only the linker is left."""
    if compiled >= total:
        return f"{name}: linking"
    left = time_left(compiled, total, elapsed_s)
    return f"{name}: {compiled} of {total} packages compiled" + (f", {left}" if left else "")


def _go(
    module: Module, go: golang.Toolchain, arguments: list[str], progress: Progress, note: Callable[[str], str]
) -> str:
    """Run go, showing what `note` makes of each line on stderr; returns stdout."""
    with tempfile.TemporaryFile("w+") as stdout:
        process = subprocess.Popen(
            [go.program, *arguments],
            cwd=module.folder,
            env=go.environ(),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr  # noqa: S101 - it was asked for
        lines: list[str] = []
        with progress:
            progress.show(f"{module.name}: reading the module")
            for line in process.stderr:
                lines = [*lines[-40:], line.rstrip()]
                progress.show(note(line.rstrip()))
        if process.wait():
            raise BuildError(_explain(module, lines))
        stdout.seek(0)
        return stdout.read()


def _explain(module: Module, lines: list[str]) -> str:
    text = "\n".join(line for line in lines if not line.startswith("go: downloading "))
    if _NETWORK_WORDS.search(text):
        advice = (
            "The Go modules could not be downloaded. Connect this machine to the network or set GOPROXY to a mirror; "
            "or set TIERWRIGHT_KUBE_BIN to a folder with the programs, or KUBECONFIG to a running cluster."
        )
    elif "signal: killed" in text:
        advice = "The compiler was killed, most likely for lack of memory: the build takes up to 3 GiB."
    elif "no space left" in text:
        used = ", ".join(
            f"{path} has {_free(path)}" for path in (paths.cache_dir(), Path(tempfile.gettempdir()))
        )
        advice = f"The disk is full ({used} left); the build took 4 GiB for modules and Go's build cache."
    else:
        advice = f"Try it by hand: cd {module.folder} && CGO_ENABLED=0 go build -o /dev/null {module.package}"
    return f"building {module.name} failed:\n{text}\n{advice}"


def _free(path: Path) -> str:
    return f"{shutil.disk_usage(path).free / 2**30:.1f} GiB"
