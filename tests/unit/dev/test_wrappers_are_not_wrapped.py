"""In a local cluster's shell its kubectl and helm come first on PATH; they are never taken for the programs themselves.

They were once: each wrapper then called itself, and whatever asked for helm waited for ever.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from dev.cluster import wrappers
from dev.cluster.cluster import Cluster
from dev.cluster.programs import tools

PROGRAMS: Final = {
    "helm": "#!/bin/sh\necho v4.0.1\n",
    "kubectl": '#!/bin/sh\necho \'{"clientVersion": {"gitVersion": "v1.37.0"}}\'\n',
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with both programs, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def cluster(tmp_path: Path, name: str) -> Cluster:
    run_dir = tmp_path / "cache" / "clusters" / name
    found = Cluster(name, run_dir, run_dir / "kubeconfig", "v1.37.0", "kwok", None)
    wrappers.wrap(run_dir, "kubectl", tools.kubectl("v1.37.0"))
    return found


def runs(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_shell_of_the_same_cluster_finds_the_programs_behind_its_wrappers(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cluster(tmp_path, "own")
    assert runs(own.helm) == "v4.0.1\n"
    monkeypatch.setenv("PATH", own.environ()["PATH"])
    assert runs(own.helm) == "v4.0.1\n"
    assert tools.helm() == installed / "helm"
    assert tools.helm_without_download() == installed / "helm"
    assert tools.any_kubectl() == tools.kubectl("v1.37.0") == installed / "kubectl"


def test_a_cluster_that_is_started_in_the_shell_of_another_outlives_it(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cluster(tmp_path, "first")
    monkeypatch.setenv("PATH", first.environ()["PATH"])
    second = cluster(tmp_path, "second")
    first.kubectl.unlink()
    assert "v1.37.0" in runs(second.kubectl)


def test_a_path_of_wrappers_alone_holds_no_program(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(wrappers.folder(cluster(tmp_path, "own").run_dir)))
    assert tools._on_path("kubectl") is None
