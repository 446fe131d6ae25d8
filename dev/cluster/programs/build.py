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
from dev.cluster.progress import Progress

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
    minutes: str

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
    "about 10 minutes on two cores",
)
KWOK = Module("kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",), "about 3 minutes on two cores")


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
    if target.is_dir():
        return target
    with locked(target.parent / "build.lock", "another build is running"):
        if not target.is_dir():
            _build(module, go, target)
    return target


def cached(module: Module) -> Path | None:
    """The folder with the module's programs if it is in the cache."""
    try:
        go = golang.toolchain(golang.wanted((module.folder / "go.mod").read_text()))
    except RuntimeError:
        return None
    target = paths.bin_dir(digest(module, go.version))
    return target if target.is_dir() else None


def _build(module: Module, go: golang.Toolchain, target: Path) -> None:
    version = pinned_version(module)
    print(f"building {module.name} {version} with {go.version}: {module.minutes} the first time", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as temporary:
        folder = Path(temporary) / "bin"
        folder.mkdir()
        total = _download(module, go)
        _compile(module, go, folder / module.programs[0], total)
        for link in module.programs[1:]:
            (folder / link).symlink_to(module.programs[0])
        folder.rename(target)
    size = (target / module.programs[0]).stat().st_size / 2**20
    print(
        f"built {module.name} in {time.monotonic() - began:.0f} s ({size:.0f} MiB) into {target}", flush=True
    )


def _download(module: Module, go: golang.Toolchain) -> int:
    """Bring the modules that the build needs; returns the number of packages in it."""
    seen = 0

    def note(line: str) -> str:
        nonlocal seen
        seen += line.startswith("go: downloading ")
        return f"{module.name}: {seen} modules downloaded"

    listing = _go(module, go, ["list", "-mod=readonly", "-deps", module.package], Progress(), note)
    return listing.count("\n")


def _compile(module: Module, go: golang.Toolchain, target: Path, total: int) -> None:
    compiled = 0

    def note(line: str) -> str:
        nonlocal compiled
        compiled += not line.startswith(("go: ", "#"))
        return f"{module.name}: {compiled} of at most {total} packages compiled"

    flags = linker_flags(module)
    arguments = ["build", "-mod=readonly", "-v", "-ldflags", flags, "-o", str(target), module.package]
    _go(module, go, arguments, Progress(), note)


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
        advice = (
            f"The disk is full ({used} left); the build needs about 8 GiB for modules and Go's build cache."
        )
    else:
        advice = f"Try it by hand: cd {module.folder} && CGO_ENABLED=0 go build -o /dev/null {module.package}"
    return f"building {module.name} failed:\n{text}\n{advice}"


def _free(path: Path) -> str:
    return f"{shutil.disk_usage(path).free / 2**30:.1f} GiB"
