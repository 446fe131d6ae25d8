"""Tool versions are read from whatever words surround them and compared by Kubernetes' skew policy."""

import pytest

from dev.cluster.programs.source import disagreement
from dev.cluster.programs.versions import Version, parse, within_one_minor


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.36.3", Version(1, 36, 3)),
        ("Kubernetes v1.36.3", Version(1, 36, 3)),
        ("v1.32.4-dispatcher", Version(1, 32, 4)),
        ("go1.26.8", Version(1, 26, 8)),
        ("go1.27rc1", Version(1, 27, 0)),
        ("v4.3.1+g1234567", Version(4, 3, 1)),
        ("1.26", Version(1, 26, 0)),
    ],
)
def test_the_version_is_found_among_other_words(text: str, version: Version) -> None:
    assert parse(text) == version


@pytest.mark.parametrize("text", ["", "devel", "v1", "none.at.all"])
def test_no_version_is_none_rather_than_zero(text: str) -> None:
    assert parse(text) is None


def test_minor_versions_compare_as_numbers_not_as_text() -> None:
    assert Version(3, 9) < Version(3, 18) < Version(4, 0)


@pytest.mark.parametrize(
    ("client", "near"),
    [
        (Version(1, 35, 9), True),
        (Version(1, 36, 0), True),
        (Version(1, 37, 1), True),
        (Version(1, 34, 9), False),
        (Version(1, 38, 0), False),
        (Version(1, 32, 4), False),
        (Version(2, 36, 3), False),
    ],
)
def test_kubectl_may_be_one_minor_version_away(client: Version, near: bool) -> None:
    assert within_one_minor(client, Version(1, 36, 3)) is near


def test_programs_of_one_minor_version_agree() -> None:
    assert (
        disagreement({"kube-apiserver": "Kubernetes v1.36.3", "kube-scheduler": "Kubernetes v1.36.1"}) is None
    )


def test_programs_of_different_versions_are_named() -> None:
    problem = disagreement({"kube-apiserver": "Kubernetes v1.36.3", "kube-scheduler": "Kubernetes v1.35.0"})
    assert problem is not None
    assert "kube-apiserver 1.36.3" in problem
    assert "kube-scheduler 1.35.0" in problem


def test_a_program_that_reports_no_version_is_named() -> None:
    problem = disagreement({"kube-apiserver": "Kubernetes v1.36.3", "kube-scheduler": ""})
    assert problem is not None
    assert "kube-scheduler" in problem
    assert "kube-apiserver" not in problem
