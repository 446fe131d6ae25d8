"""Kubernetes' programs: a folder that was named comes before the cache, the cache before a build; a wrong one is told."""

from pathlib import Path

import pytest

from dev.cluster.programs import build, source
from dev.cluster.programs.source import CONTROL_PLANE, KUBE_BIN, Programs, SourceError


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache holds programs; a build would be noticed."""
    folder = tmp_path / "cached"
    monkeypatch.setattr(build, "cached", lambda _: folder)
    monkeypatch.setattr(build, "built", lambda _: pytest.fail("nothing had to be built"))
    return folder


def named(tmp_path: Path, **versions: str) -> Path:
    """A folder of programs that report their versions."""
    folder = tmp_path / "named"
    folder.mkdir()
    for program in CONTROL_PLANE:
        script = folder / program
        script.write_text(
            f"#!/bin/sh\necho Kubernetes {versions.get(program, 'v1.35.2')}\n", encoding="utf-8"
        )
        script.chmod(0o700)
    return folder


@pytest.mark.usefixtures("cached")
def test_a_named_folder_comes_before_the_cache(tmp_path: Path) -> None:
    folder = named(tmp_path)
    found = source.programs(environ={KUBE_BIN: str(folder)})
    assert found == Programs(folder, "v1.35.2", f"{KUBE_BIN} ({folder})")


def test_the_cache_comes_before_a_build(cached: Path) -> None:
    found = source.programs(environ={})
    assert (found.bin_dir, found.origin) == (cached, f"the cache ({cached})")


def test_what_is_neither_named_nor_cached_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "cached", lambda _: None)
    monkeypatch.setattr(build, "built", lambda _: tmp_path)
    found = source.programs(environ={})
    assert (found.bin_dir, found.origin) == (tmp_path, "a build of the pinned Go modules")


@pytest.mark.usefixtures("cached")
def test_a_program_that_a_named_folder_lacks_is_told_and_nothing_else_is_taken(tmp_path: Path) -> None:
    folder = named(tmp_path)
    (folder / "etcd").unlink()
    (folder / "kube-scheduler").chmod(0o600)
    with pytest.raises(SourceError, match="not there or not executable: etcd, kube-scheduler"):
        source.programs(environ={KUBE_BIN: str(folder)})


@pytest.mark.usefixtures("cached")
def test_named_programs_of_different_versions_are_told(tmp_path: Path) -> None:
    folder = named(tmp_path, **{"kube-scheduler": "v1.34.0"})
    with pytest.raises(SourceError, match="different versions"):
        source.programs(environ={KUBE_BIN: str(folder)})
