"""A cached build is used only for the very sources, flags and toolchain it was made from, and failures are explained."""

from pathlib import Path

import pytest

from dev.cluster.programs import build


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


def test_the_time_left_follows_the_pace_so_far_and_is_not_guessed_before_there_is_one() -> None:
    assert build.compiling("kwok", 0, 2924, 40) == "kwok: 0 of 2924 packages compiled"
    assert build.compiling("kwok", 350, 2924, 5) == "kwok: 350 of 2924 packages compiled"
    assert build.compiling("kwok", 919, 2924, 80) == "kwok: 919 of 2924 packages compiled, about 3 min left"
    assert build.compiling("kwok", 2700, 2924, 280).endswith("about a minute left")


def test_after_the_last_package_only_the_linker_is_left() -> None:
    assert build.compiling("kwok", 2924, 2924, 300) == "kwok: linking"
    assert build.compiling("kwok", 1, 0, 1) == "kwok: linking"
