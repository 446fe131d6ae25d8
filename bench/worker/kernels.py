"""Builds the worker's kernels for processors where they are missing or older than their source, as its image would."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

_ASK = "from tierwright_worker import native; print(native.instructions())"


def ensure_kernels(environment: Mapping[str, str], say: Callable[[str], None]) -> str:
    """The instruction set of the kernels; `none` where there is no compiler to build them.

    Raises:
        subprocess.CalledProcessError: the compiler refused; it has said why.
    """
    found = _instructions(environment)
    if found != "none":
        return found
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        say("no C++ compiler: the worker is measured on JAX's own operations")
        return found
    say("building the worker's kernels")
    build = [sys.executable, "-m", "tierwright_worker.native.build"]
    subprocess.run(build, env=dict(environment), check=True, stdout=sys.stderr)
    return _instructions(environment)


def _instructions(environment: Mapping[str, str]) -> str:
    asked = subprocess.run(
        [sys.executable, "-c", _ASK], env=dict(environment), check=True, capture_output=True, text=True
    )
    return asked.stdout.strip()
