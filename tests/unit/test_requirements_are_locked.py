"""The lock files fix every package by version and hash, and leave it to each machine where its packages come from."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "requirements"
LOCKS: Final = sorted(FOLDER.glob("*.txt"))
SHARED: Final = {"worker-base"}
"""Parts of other files, which are locked with those."""
WANTED: Final = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,._-]+\])?==\S+( ; \S.*)?")
HASH: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}")
HOST: Final = re.compile(r"(?<![\w.-])([a-z0-9-]+\.)+(com|dev|io|net|org)(?![\w.-])|\d+(\.\d+){3}:\d+")
PLACES: Final = (
    ":" + "//",
    "--ind" + "ex",
    "--extra-ind" + "ex",
    "--find-li" + "nks",
    "--trusted-ho" + "st",
    "-i ",
    "-f ",
)
"""What only a line has that says where to look for packages."""


def packages(lock: Path) -> list[list[str]]:
    """Each package of a lock file: its line, then its options."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [re.split(r"\s+(?=--)", line.strip()) for line in lines]


def test_there_are_lock_files() -> None:
    names = {each.stem for each in LOCKS}
    assert names >= {"dev", "operator", "worker", "engine-sim", "tools"}
    assert {each.stem for each in FOLDER.glob("*.in")} - SHARED == names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_package_has_one_version_and_its_hashes(lock: Path) -> None:
    found = packages(lock)
    assert found
    for wanted, *options in found:
        assert WANTED.fullmatch(wanted), wanted
        assert options, f"{wanted} has no hash"
        assert [each for each in options if not HASH.fullmatch(each)] == [], wanted


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_no_file_says_where_packages_come_from(file: Path) -> None:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        assert not HOST.search(line), f"{file.name}:{number} names a host: {line}"
        assert [each for each in PLACES if each in line] == [], f"{file.name}:{number}: {line}"


@pytest.mark.parametrize(
    "line",
    [
        "--index" + "-url=" + "https:" + "//packages.example.org/simple",
        "wheel @ " + "https:" + "//example.org/wheel.whl",
        "# from mirror.example.net",
        "--trusted-host 10.0.0.1:8080",
    ],
)
def test_a_place_would_be_noticed(line: str) -> None:
    assert HOST.search(line) or any(each in line for each in PLACES)
    assert not WANTED.fullmatch(line)
