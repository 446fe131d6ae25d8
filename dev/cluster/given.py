"""Uses a cluster that runs already and that KUBECONFIG names: kind, minikube, or one in a cloud."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.programs import tools

_ANSWER_S = 10


@dataclass(frozen=True)
class Given:
    """A cluster that answers: its context's name, its server's version (`v1.35.1`), and a kubectl that suits it."""

    context: str
    version: str
    kubectl: Path
    flat: str
    """Its kubeconfig, reduced to the current context and with all files embedded."""


def is_given(environ: Mapping[str, str]) -> bool:
    """Whether KUBECONFIG names a cluster that dev.cluster did not start itself."""
    value = environ.get("KUBECONFIG", "")
    files = [Path(file).absolute() for file in value.split(os.pathsep) if file]
    return bool(files) and not any(file.is_relative_to(paths.clusters_dir()) for file in files)


def find(environ: Mapping[str, str], progress: Callable[[str], None] = print) -> Given | None:
    """The cluster that KUBECONFIG names when it answers within ten seconds; else None, after saying why.

    Raises packages.PackageError when there is no kubectl to ask with.
    """
    if not is_given(environ):
        return None
    where = f"KUBECONFIG={environ['KUBECONFIG']}"
    kubectl = tools.any_kubectl()
    asked = _run(kubectl, environ, "version", "--output=json", f"--request-timeout={_ANSWER_S}s")
    try:
        version = str(json.loads(asked.stdout)["serverVersion"]["gitVersion"])
    except (ValueError, KeyError, TypeError):
        reason = (asked.stderr.strip().splitlines() or ["no answer"])[-1]
        progress(f"{where} is passed over, its cluster does not answer: {reason}")
        return None
    flat = _run(kubectl, environ, "config", "view", "--raw", "--minify", "--flatten").stdout
    context = _run(kubectl, environ, "config", "current-context").stdout.strip()
    suited = tools.kubectl(version) or kubectl
    return Given(context, version, suited, flat)


def _run(kubectl: Path, environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [kubectl, *words], capture_output=True, text=True, check=False, env=dict(environ), timeout=60
    )
