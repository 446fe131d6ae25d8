"""Whether an image is built again: exactly when something changed that its Dockerfile takes in."""

import subprocess
from pathlib import Path

import pytest

from dev.cluster.images.context_digest import context_files, copied_sources, image_digest

DOCKERFILE = """\
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build
COPY requirements.txt ./
# COPY commented.txt /
COPY --chown=1:1 src/ \\
     extra.txt /app/
RUN --mount=type=bind,source=only-mounted,target=/m --mount=type=cache,target=/var/cache/pip true
FROM ${PYTHON_IMAGE}
COPY --from=build /app /app
ADD https://example.com/file /file
COPY ["with space.txt", "/x/"]
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "only-mounted").mkdir()
    for name in (
        "requirements.txt",
        "extra.txt",
        "with space.txt",
        "src/a.py",
        "only-mounted/m",
        "README.md",
    ):
        (tmp_path / name).write_text(name)
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return tmp_path


def digest(context: Path, base: str = "base:1", **build_args: str) -> str:
    return image_digest(context, context / "Dockerfile", "app", build_args, base)


def test_sources_of_all_stages_are_found_and_those_of_other_images_are_not() -> None:
    assert copied_sources(DOCKERFILE) == [
        "extra.txt",
        "only-mounted",
        "requirements.txt",
        "src/",
        "with space.txt",
    ]


@pytest.mark.parametrize(
    "changed", ["requirements.txt", "src/a.py", "src/new.py", "only-mounted/m", "Dockerfile"]
)
def test_a_change_of_what_is_copied_changes_the_digest(context: Path, changed: str) -> None:
    before = digest(context)
    (context / changed).write_text(DOCKERFILE + "RUN echo changed\n")
    assert digest(context) != before


def test_a_change_of_what_is_not_copied_changes_nothing(context: Path) -> None:
    before = digest(context)
    (context / "README.md").write_text("other words")
    (context / "src" / "__pycache__").mkdir()
    (context / "src" / "__pycache__" / "a.pyc").write_text("compiled")
    assert digest(context) == before


def test_base_image_arguments_and_executable_bits_count(context: Path) -> None:
    before = digest(context)
    assert digest(context, base="base:2") != before
    assert digest(context, VERSION="2") != before
    (context / "src" / "a.py").chmod(0o755)
    assert digest(context) != before


def test_files_that_git_ignores_do_not_count(context: Path) -> None:
    subprocess.run(["git", "init", "-q", str(context)], check=True)
    (context / ".gitignore").write_text("*.log\n")
    before = digest(context)
    (context / "src" / "noise.log").write_text("noise")
    assert digest(context) == before
    (context / "src" / "untracked.py").write_text("counts")
    assert digest(context) != before


def test_a_source_that_is_not_there_is_named(context: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"copies 'gone\.txt', which is not in"):
        context_files(context, ["gone.txt"])
