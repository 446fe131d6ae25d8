"""Builds images from unchanged Dockerfiles without a registry, and loads them into a cluster's nodes.

image = build_image("tierwright-operator:dev", Path("."), target="operator")
load_image(image, run_dir)                       # into the real nodes of a cluster of ours
print(load_commands(image))                      # for a cluster given by KUBECONFIG
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.images import buildah
from dev.cluster.images.base_image import ensure_base_images
from dev.cluster.images.context_digest import image_digest
from dev.cluster.nodes import real_nodes as nodes

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PIP_CONFIG = "/etc/pip.conf"
# Settings of the host's pip that mean the same inside a build; folders and caches of the host do not.
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_PIP_LINE = re.compile(r"^(?:global|install|site|user|:env:)\.([a-z-]+)='(.*)'$")
_ARCHIVES_KEPT = 2


@dataclass(frozen=True)
class Image:
    """A built image: the `reference` that pods name, and its docker-archive in the cache."""

    reference: str
    archive: Path


def build_image(
    name: str,
    context: Path,
    target: str = "",
    dockerfile: Path | None = None,
    build_args: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = print,
) -> Image:
    """Build `name` (`repository:tag`) from `context`, unless an image of the same inputs is in the cache.

    The Dockerfile gets the local base image as its argument PYTHON_IMAGE. The host's certificates and pip settings are
    there while it builds and are no part of the image.
    Raises ValueError for a name without a fixed tag, buildah.BuildError with the end of the output when it fails.
    """
    reference = full_reference(name)
    dockerfile = dockerfile or context / "Dockerfile"
    arguments = dict(build_args or {})
    base = arguments.setdefault("PYTHON_IMAGE", "") or ensure_base_images(progress).python_image
    arguments["PYTHON_IMAGE"] = base
    digest = image_digest(context, dockerfile, target, arguments, base)
    stem = buildah.file_stem(reference)
    archive = paths.cache_dir() / "images" / f"{stem}-{digest}.tar"
    if archive.exists():
        paths.mark_used(archive)
        progress(f"image {name} is up to date")
        return Image(reference, archive)
    progress(f"building image {name}")
    log = paths.cache_dir() / "logs" / f"build-{stem}.log"
    options = [f"--build-arg={key}={value}" for key, value in sorted(arguments.items())]
    options += [f"--target={target}"] if target else []
    with buildah.session(), tempfile.TemporaryDirectory(prefix="tierwright-build-") as folder:
        mounts = _build_mounts(Path(folder))
        buildah.build(context, dockerfile, reference, log, [*options, *mounts])
        buildah.export(reference, archive, log.with_suffix(".export.log"))
    _remove_old_archives(archive.parent, stem)
    return Image(reference, archive)


def _remove_old_archives(folder: Path, stem: str) -> None:
    """Keep the archives of the image that were used last, so that two working trees do not take each other's away."""
    named = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{12}}\.tar")
    archives = [path for path in folder.glob(f"{stem}-*.tar") if named.fullmatch(path.name)]
    for old in sorted(archives, key=lambda path: -path.stat().st_mtime)[_ARCHIVES_KEPT:]:
        old.unlink()


def load_image(image: Image, run_dir: Path, only: Sequence[str] | None = None) -> None:
    """Import the image into the real nodes of the cluster in `run_dir` (those named in `only`, else all).

    Raises nodes.NodesError when the cluster has no real nodes: kwok's run no images.
    """
    running = nodes.load(run_dir)
    if running is None:
        raise nodes.NodesError(f"the cluster in {run_dir} has no real nodes to load {image.reference} into")
    running.load_image(image.reference, image.archive, only)


def load_commands(image: Image) -> list[str]:
    """The command that loads the image, for each kind of cluster that KUBECONFIG may point to."""
    return [
        f"kind load image-archive {image.archive}",
        f"minikube image load {image.archive}",
        f"docker load --input {image.archive}   # Docker Desktop; or push it to a registry your cluster pulls from",
    ]


def full_reference(name: str) -> str:
    """The name with the registry host that container runtimes put before a short one.

    Raises ValueError without a tag or with `latest`: Kubernetes would try to pull it, and there is no registry.
    """
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag or tag == "latest":
        raise ValueError(f"image {name!r}: give it a tag other than latest, such as {name.split(':')[0]}:dev")
    first, slash, _ = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def pip_config(listed: str, certificates: str | None) -> str:
    """A pip.conf for builds from the output of `pip config list` on the host."""
    settings = {}
    for line in listed.splitlines():
        if (match := _PIP_LINE.match(line.strip())) and match[1].removeprefix("default-") in _PIP_SETTINGS:
            settings[match[1].removeprefix("default-")] = match[2].replace("\\n", "\n    ")
    if certificates:
        settings["cert"] = certificates
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))


def _build_mounts(folder: Path) -> list[str]:
    bundles = [os.environ.get("SSL_CERT_FILE", ""), *_BUNDLES]
    bundle = next((path for path in bundles if path and Path(path).is_file()), None)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    config = folder / "pip.conf"
    config.write_text(pip_config(listed.stdout, _CERTIFICATES if bundle else None))
    config.chmod(0o644)
    folder.chmod(0o755)
    mounts = [f"--volume={config}:{_PIP_CONFIG}:ro"]
    return [*mounts, f"--volume={bundle}:{_CERTIFICATES}:ro"] if bundle else mounts
