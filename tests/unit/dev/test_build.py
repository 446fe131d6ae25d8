"""A cached build is used only for the very sources, flags and toolchain it was made from, and failures are explained."""

import io
from pathlib import Path

import pytest

from dev.cluster.programs import build
from dev.cluster.progress import Progress


def test_the_programs_report_the_version_that_go_mod_pins() -> None:
    version = build.pinned_version(build.KUBERNETES)
    flags = build.linker_flags(build.KUBERNETES)
    assert f"gitVersion={version}" in flags
    major, minor, _ = version.removeprefix("v").split(".")
    assert f"gitMajor={major}" in flags
    assert f"gitMinor={minor}" in flags


def test_kwok_is_pinned() -> None:
    assert build.pinned_version(build.KWOK).startswith("v0.")


def test_every_file_and_the_toolchain_decide_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_HERE", tmp_path)
    folder = tmp_path / "kwok"
    folder.mkdir()
    (folder / "go.mod").write_text("require sigs.k8s.io/kwok v0.8.0\n")
    (folder / "go.sum").write_text("a\n")
    (folder / "tools.go").write_text("package tools\n")
    digests = [build.digest(build.KWOK, "go1.26.8"), build.digest(build.KWOK, "go1.26.9")]
    for name in ("go.mod", "go.sum", "tools.go"):
        with (folder / name).open("a") as file:
            file.write("// changed\n")
        digests.append(build.digest(build.KWOK, "go1.26.8"))
    assert len(set(digests)) == len(digests)
    assert build.digest(build.KWOK, "go1.26.8") == digests[-1]


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("proxy: dial tcp: lookup proxy: no such host", "could not be downloaded"),
        ("compile: signal: killed", "lack of memory"),
        ("write /tmp/x: no space left on device", "The disk is full"),
        ("./main.go:7: undefined: x", "Try it by hand"),
    ],
)
def test_a_failed_build_says_what_to_do(output: str, advice: str) -> None:
    text = build._explain(build.KWOK, ["go: downloading a v1", output])
    assert output in text
    assert advice in text
    assert "go: downloading" not in text


def test_a_log_gets_whole_lines_and_no_control_characters() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.show("kwok: 3 of at most 9 packages compiled")
    assert progress.line() == "kwok: 3 of at most 9 packages compiled (0:00)"
    with progress:
        pass
    assert "\x1b" not in stream.getvalue()
