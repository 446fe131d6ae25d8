"""The simulator's Dockerfile: locked packages, no installer in what runs, vLLM's uid, and everything it needs copied."""

import re
from pathlib import Path

from dev.cluster.images.context_digest import context_files, copied_sources

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "dev/engine_sim/Dockerfile").read_text(encoding="utf-8")
BUILD, FINAL = (stage.replace("\\\n", " ") for stage in TEXT.split("FROM ${PYTHON_IMAGE}")[1:])


def test_packages_are_locked_and_stay_without_an_installer() -> None:
    assert re.findall(r"pip install|-m pip", TEXT) == ["-m pip"]
    assert "install --require-hashes --only-binary :all: -r engine-sim.txt" in BUILD
    assert "venv --without-pip /opt/engine-sim" in BUILD
    assert re.search(r"RUN rm -rf .*/usr/local/lib/python3\*/site-packages/pip\*", FINAL)


def test_it_runs_as_the_uid_of_vllms_image_with_vllms_kind_of_arguments() -> None:
    assert re.findall(r"^USER (.*)$", FINAL, re.MULTILINE) == ["2000:0"]
    assert re.findall(r"^ENTRYPOINT (.*)$", FINAL, re.MULTILINE) == ['["python", "-m", "dev.engine_sim"]']
    assert re.findall(r"^CMD", FINAL, re.MULTILINE) == []


def test_every_module_and_table_is_copied() -> None:
    copied = {path.relative_to(ROOT).as_posix() for path in context_files(ROOT, copied_sources(TEXT))}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dev/engine_sim").glob("*.*")}
    assert copied == package | {"requirements/engine-sim.txt"}


def test_nothing_outside_the_image_is_imported() -> None:
    imports = {
        match[1]
        for path in (ROOT / "dev/engine_sim").glob("*.py")
        for match in re.finditer(r"^(?:from|import) ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    ours = {name for name in imports if name.split(".")[0] in {"dev", "tests", "tierwright"}}
    assert all(name.startswith("dev.engine_sim") for name in ours)
    locked = (ROOT / "requirements/engine-sim.txt").read_text(encoding="utf-8")
    for package in {"aiohttp", "prometheus_client"} & {name.split(".")[0] for name in imports}:
        assert re.search(rf"^{package.replace('_', '-')}==", locked, re.MULTILINE)
