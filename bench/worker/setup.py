"""What a run measures, with which model, caches and flags; what every part needs."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.worker.servers import pairs

ROOT = Path(__file__).resolve().parents[2]
OWN_CONTEXT = 1024  # of `tierwright-worker bench`: it holds the longest prompt of the set and its answer


class UnavailableError(Exception):
    """A part cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run measures and how long. `options` go to `tierwright-worker bench` as they are."""

    model: Path
    cache: Path
    rounds: int
    decode_tokens: int = 128
    streams: int = 8
    prompt_tokens: int = 1500
    context: int = 2048
    options: tuple[str, ...] = ()
    say: Callable[[str], None] = field(default=lambda _: None)


def model_flags(setup: Setup) -> Sequence[str]:
    """Where the model and the caches are, as words of the worker's command line."""
    flags = {
        "--model": setup.model,
        "--weights-cache": setup.cache,
        "--compile-cache": setup.cache / "programs",
    }
    return pairs(flags)


def own_environment() -> dict[str, str]:
    """The environment of the worker's own processes."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "worker"), str(ROOT)])}
