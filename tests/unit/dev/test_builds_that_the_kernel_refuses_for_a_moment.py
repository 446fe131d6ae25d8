"""A build is tried again when the kernel refused to seal buildah's copy of itself, and for no other reason."""

from pathlib import Path

import pytest

from dev.cluster.images import buildah
from dev.cluster.images.buildah import BuildError

BUSY = "Close_Fd sealing memfd copy: Device or resource busy"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, and an `unshare` before all others that counts its calls, says `words` and fails `failures` times."""
    programs = tmp_path / "programs"
    programs.mkdir()
    script = programs / "unshare"
    script.write_text(
        "#!/bin/sh\n"
        f'echo call >> "{tmp_path}/calls"\n'
        f'if [ "$(wc -l < "{tmp_path}/calls")" -le "$(cat "{tmp_path}/failures")" ]; then cat "{tmp_path}/words"; exit 1; fi\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def built_after(calls: Path, failures: int, words: str) -> int:
    """Build an image whose builder fails so often with these words; how often it was called."""
    (calls / "failures").write_text(str(failures))
    (calls / "words").write_text(words)
    try:
        buildah.build(calls, calls / "Dockerfile", "x:1", calls / "build.log")
    finally:
        called = len((calls / "calls").read_text().splitlines())
    return called


def test_a_seal_that_is_refused_twice_costs_no_build(calls: Path) -> None:
    assert built_after(calls, 2, BUSY) == 3


def test_a_seal_that_is_always_refused_ends_the_build_with_its_words(calls: Path) -> None:
    with pytest.raises(BuildError, match="sealing memfd"):
        built_after(calls, 99, BUSY)
    assert len((calls / "calls").read_text().splitlines()) == 4


def test_a_build_that_fails_for_another_reason_is_not_tried_again(calls: Path) -> None:
    with pytest.raises(BuildError, match="no such instruction"):
        built_after(calls, 1, "no such instruction")
    assert len((calls / "calls").read_text().splitlines()) == 1
