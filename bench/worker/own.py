"""The worker alone: its gears, single steps with their profile, and its start, as `tierwright-worker bench` measures them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.worker.servers import end
from bench.worker.setup import OWN_CONTEXT, Setup, UnavailableError, model_flags, own_environment


def measure_gears(setup: Setup) -> dict[str, Any]:
    """Fast, plain and loaded. Told to stop, it gives what whole passes have measured, and says `interrupted`.

    Raises:
        UnavailableError: it failed; it has said why.
        KeyboardInterrupt: told to stop before a pass was complete.
    """
    target = setup.cache / "gears.json"
    try:
        return _bench(setup, "gears", target)
    except KeyboardInterrupt:
        if not target.is_file():
            raise
        setup.say("interrupted: what whole passes have measured is kept")
        return {**_read(target), "interrupted": True}


def measure_steps(setup: Setup) -> dict[str, Any]:
    """Single steps, and what they consist of.

    Raises:
        UnavailableError: it failed; it has said why.
    """
    steps = _bench(setup, "steps", setup.cache / "steps.json")
    target = setup.cache / "profile.json"
    command = ["-m", "bench.worker.profile", *model_flags(setup), "--json", str(target)]
    _run(setup, "the profile", command, target)
    return {**steps, "profile": _read(target)}


def measure_process(setup: Setup) -> dict[str, Any]:
    """A worker's start from warm caches, and its memory.

    Raises:
        UnavailableError: it failed; it has said why.
    """
    return _bench(setup, "process", setup.cache / "process.json")


def _bench(setup: Setup, part: str, target: Path) -> dict[str, Any]:
    given = ["--max-model-len", str(OWN_CONTEXT), "--only", part, "--json", str(target), *setup.options]
    _run(setup, part, ["-m", "tierwright_worker", "bench", *model_flags(setup), *given], target)
    return _read(target)


def _run(setup: Setup, what: str, words: list[str], target: Path) -> None:
    """Run a command of this Python that writes `target` anew; it and what it started are gone afterwards."""
    setup.say(f"measuring {what}")
    target.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, *words], env=own_environment(), start_new_session=True)
    try:
        status = process.wait()
    finally:
        end(process)
    if status:
        raise UnavailableError(f"{what} ended with status {status}")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
