"""Runs `ip` and `nft`, and turns what they complain about into one error."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from dev.cluster.machine.system_path import environment


class NetworkError(RuntimeError):
    """The network for real nodes could not be made; the message says what to do."""


def run(argv: Sequence[str], stdin: str | None = None) -> None:
    """Run a command. Raises NetworkError with its words when it fails."""
    done = subprocess.run(argv, input=stdin, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"`{' '.join(argv)}` failed: {(done.stderr or done.stdout).strip()}")


def run_quietly(argv: Sequence[str]) -> None:
    """Run a command that may fail, as one that deletes what may be gone."""
    subprocess.run(argv, env=environment(), capture_output=True, check=False)


def output(argv: Sequence[str]) -> str:
    """What a command prints. Raises NetworkError."""
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


def listed(argv: Sequence[str]) -> list[dict[str, Any]]:
    """What `ip -j` lists; it prints nothing at all for an empty list. Raises NetworkError."""
    entries: list[dict[str, Any]] = json.loads(output(argv) or "[]")
    return entries
