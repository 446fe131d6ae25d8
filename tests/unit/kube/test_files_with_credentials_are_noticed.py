"""A file that was replaced, changed, removed or made is noticed, and looked at every few seconds only."""

from pathlib import Path

import pytest

from tierwright.kube.credential_files import LOOK_EVERY, CredentialFiles


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(*paths: Path) -> tuple[CredentialFiles, Clock]:
    clock = Clock()
    files = CredentialFiles([*map(str, paths), ""], clock)
    clock.now += LOOK_EVERY
    return files, clock


def test_files_that_stay_as_they_are_have_not_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    files, _ = watched(tmp_path / "a", tmp_path / "absent")
    assert not files.changed()


@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed", "made", "turned link"])
def test_any_change_is_noticed(tmp_path: Path, how: str) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    if how == "turned link":
        for name in ("one", "two"):
            (tmp_path / name).write_text(name)
        path.symlink_to(tmp_path / "one")
    elif how != "made":
        path.write_text("a")
    files, _ = watched(path)
    if how == "rewritten" or how == "made":
        path.write_text("other words")
    elif how == "replaced":
        other.write_text("b")
        other.replace(path)
    elif how == "removed":
        path.unlink()
    else:
        path.unlink()
        path.symlink_to(tmp_path / "two")
    assert files.changed()


def test_the_files_are_not_looked_at_with_each_request(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    files, clock = watched(path)
    assert not files.changed()
    path.write_text("other words")
    assert not files.changed()
    clock.now += LOOK_EVERY
    assert files.changed()
