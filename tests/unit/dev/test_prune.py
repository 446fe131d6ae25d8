"""The cache does not grow for ever, and nothing is removed that a present build, or the one before, has use for."""

import itertools
import os
import time
from pathlib import Path

import pytest

from dev.cluster import paths
from dev.cluster.images import buildah
from dev.cluster.machine.locks import locked
from dev.cluster.programs import build
from dev.cluster.prune import Entry, Stored, images_in, layers_in, old_entries, old_images, prune

DAY = 24 * 3600.0
NOW = 100 * DAY


def entry(name: str, kind: str, days_ago: float) -> Entry:
    """Something that was used last so many days ago."""
    return Entry(Path("/cache/bin") / name, kind, NOW - days_ago * DAY)


def test_of_each_kind_the_last_two_stay() -> None:
    entries = [
        entry("kubernetes-c", "kubernetes", 9),
        entry("kubernetes-a", "kubernetes", 2),
        entry("kubernetes-b", "kubernetes", 3),
        entry("kwok-a", "kwok", 50),
    ]
    for order in itertools.permutations(entries):
        assert [path.name for path in old_entries(order, NOW)] == ["kubernetes-c"]


def test_what_was_used_within_a_day_stays_however_much_there_is() -> None:
    assert old_entries([entry(f"kwok-{number}", "kwok", 0.9) for number in range(9)], NOW) == []


LOG = """[1/2] STEP 1/3: FROM localhost/tierwright-python:abc AS build
--> Using cache 111111111111111111111111111111111111111111111111111111111111aaaa
--> 11111111111
[1/2] STEP 2/3: RUN echo '--> not-an-id'
--> 22222222222
[2/2] COMMIT x
--> 33333333333
"""


def test_layers_that_a_build_made_or_reused_are_read_from_its_output() -> None:
    assert {layer[:11] for layer in layers_in(LOG)} == {"1" * 11, "2" * 11, "3" * 11}


def test_layers_of_the_last_builds_and_images_with_an_archive_stay() -> None:
    stored = [
        Stored("111111111111", (), 1),
        Stored("222222222222", (), 2),
        Stored("999999999999", (), 3),
        Stored("888888888888", (), 4),
        Stored("444444444444", ("localhost/tierwright/operator:dev",), 5),
        Stored("555555555555", ("localhost/tierwright/operator:scratch",), 6),
        Stored("666666666666", ("localhost/tierwright-pause:1",), 0),
    ]
    gone = old_images(stored, layers_in(LOG), {"localhost/tierwright/operator:dev"})
    # Children are newer than their parents.
    assert gone == ["localhost/tierwright/operator:scratch", "888888888888", "999999999999"]


def test_the_last_two_python_images_stay() -> None:
    stored = [
        Stored(f"{number}" * 12, (f"localhost/tierwright-python:{number}",), number) for number in (2, 9, 5)
    ]
    assert old_images(stored, [], []) == ["localhost/tierwright-python:2"]


@pytest.mark.parametrize("listed", ["", "null", "[]"])
def test_an_empty_storage_is_no_trouble(listed: str) -> None:
    assert images_in(listed) == []


def test_a_layer_without_a_name_is_read() -> None:
    assert images_in('[{"id": "abc", "names": null, "created": 5}]') == [Stored("abc", (), 5)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, on a machine without buildah."""
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    return tmp_path


def made(path: Path, days_ago: float) -> Path:
    """A folder with a program in it, used last so long ago."""
    path.mkdir(parents=True)
    (path / "program").write_text("x")
    then = time.time() - days_ago * DAY
    os.utime(path, (then, then))
    return path


def test_old_programs_go_and_it_is_told(cache: Path) -> None:
    folders = [made(paths.bin_dir(f"kwok-{number:016x}"), days_ago=number + 2) for number in range(4)]
    said: list[str] = []
    prune(said.append)
    assert [folder.is_dir() for folder in folders] == [True, True, False, False]
    assert [line.split()[1] for line in said] == [f"bin/kwok-{number:016x}" for number in (2, 3)]


def test_a_program_that_a_clusters_wrapper_calls_stays(cache: Path) -> None:
    folders = [
        made(paths.downloads_dir() / f"tool-{number:016x}", days_ago=number + 2) for number in range(4)
    ]
    wrapper = paths.run_dir("demo") / "tools" / "helm"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(f"exec {folders[3]}/helm\n")
    prune(lambda _: None)
    assert [folder.is_dir() for folder in folders] == [True, True, False, True]


def test_nobody_waits_for_a_build_to_prune(cache: Path) -> None:
    folders = [made(paths.bin_dir(f"kwok-{number:016x}"), days_ago=number + 2) for number in range(4)]
    with locked(build.lock_file(), "never said"):
        prune(lambda _: None)
    assert all(folder.is_dir() for folder in folders)


def test_use_is_noted_so_that_what_is_old_but_used_stays(cache: Path) -> None:
    folder = made(paths.bin_dir("kwok-0000000000000000"), days_ago=30)
    paths.mark_used(folder)
    assert time.time() - folder.stat().st_mtime < 60
    paths.mark_used(cache / "not-there")


def test_the_output_of_the_build_before_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildah, "_run", lambda _, log, __: log.write_text("new"))
    log = cache / "build-x.log"
    log.write_text("old")
    buildah.build(cache, cache / "Dockerfile", "x:1", log)
    assert (log.read_text(), (cache / "build-x.previous.log").read_text()) == ("new", "old")
