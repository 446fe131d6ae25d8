"""Which Python goes into the local base image, and onto which Debian."""

from pathlib import Path

import pytest

from dev.cluster.images.base_image import Debian, host_debian, python_dockerfile
from dev.cluster.images.host_python import HostPython, rank


def python(*version: int) -> HostPython:
    major, minor, patch = version
    return HostPython(Path(f"/opt/{major}.{minor}.{patch}"), (major, minor, patch))


def test_the_python_nearest_to_3_12_is_taken_and_none_below_3_11() -> None:
    there = [
        python(3, 10, 9),
        python(3, 11, 7),
        python(3, 14, 0),
        python(3, 13, 1),
        python(3, 12, 1),
        python(3, 12, 8),
    ]
    shorts = [each.version for each in rank(there)]
    assert shorts == [(3, 12, 8), (3, 12, 1), (3, 13, 1), (3, 11, 7), (3, 14, 0)]
    assert rank([python(3, 10, 9)]) == []


@pytest.mark.parametrize(
    ("os_release", "uris", "expected"),
    [
        (
            "ID=debian\nVERSION_CODENAME=bookworm\n",
            ["http://security.example/debian-security/", "http://mirror.example/debian/"],
            ("bookworm", "http://mirror.example/debian/"),
        ),
        ('ID=ubuntu\nVERSION_CODENAME="noble"\n', [], ("noble", None)),
        ("ID=fedora\nVERSION_ID=44\n", [], ("bookworm", None)),
        ("", [], ("bookworm", None)),
    ],
)
def test_the_debian_of_the_image_is_the_machines_own_where_it_has_one(
    os_release: str, uris: list[str], expected: tuple[str, str | None]
) -> None:
    assert host_debian(os_release, uris) == expected


def test_other_packages_make_another_base_and_another_mirror_does_not() -> None:
    one = Debian("bookworm", "http://a.example", ("libssl3",))
    assert one.digest == Debian("bookworm", "http://b.example", ("libssl3",)).digest
    assert one.digest != Debian("bookworm", "http://a.example", ("libssl3", "zlib1g")).digest


def test_both_kinds_of_base_give_python_pip_and_the_usual_modules() -> None:
    for text in (python_dockerfile(None), python_dockerfile(python(3, 13, 1))):
        assert "import bz2, ctypes, hashlib, lzma, sqlite3, ssl, uuid, zlib" in text
        assert "pip --version" in text
    assert "ln -sf python3.13 /usr/local/bin/python3" in python_dockerfile(python(3, 13, 1))
    assert "EXTERNALLY-MANAGED" in python_dockerfile(None)
