"""`python -m bench.worker.profile`: what a step and a prompt's chunk consist of, operation by operation, as XLA traces them.

Each program runs a few times untraced, for the whole call's seconds, and a few times traced, for those of its operations.
Operations are told by what they compute, not by their names: a product by its inputs and outputs.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from bench.worker.operations import Kind, Operation, gathered, kinds_of, operations_of
from tierwright_worker.cli.flags import parser, settings_of
from tierwright_worker.cli.precision import precision_of
from tierwright_worker.cli.start import read_model
from tierwright_worker.cli.stores import target_store
from tierwright_worker.engine.executor import Executor, timed
from tierwright_worker.engine.interface import Shapes

LENGTH = 512
POSITION = LENGTH // 2
CHUNK = 256
TIMES = 9


@dataclass(frozen=True, slots=True)
class Case:
    """One call: a step of `rows` rows in each of `slots` slots, or, with `slots` 0, a prompt's chunk of `rows`."""

    name: str
    slots: int
    rows: int


CASES = (
    Case("one row", 1, 1),
    Case("nine rows", 1, 9),
    Case("eight slots", 8, 1),
    Case(f"a chunk of {CHUNK}", 0, CHUNK),
)


@dataclass(frozen=True, slots=True)
class Profiled:
    """`seconds`: the whole call, untraced, the best of several. `operations`: one entry for each kind."""

    case: Case
    seconds: float
    operations: tuple[Operation, ...]


def main(arguments: list[str] | None = None) -> int:
    """Profile every case and write the JSON."""
    given = argparse.ArgumentParser(prog="python -m bench.worker.profile", description=__doc__)
    for name in ("--model", "--weights-cache", "--compile-cache", "--json"):
        given.add_argument(name, type=Path, required=True)
    options = given.parse_args(arguments)
    flags = ["--model", options.model, "--weights-cache", options.weights_cache]
    settings = settings_of(
        parser().parse_args(["serve", *map(str, flags), "--compile-cache", str(options.compile_cache)])
    )
    model = read_model(settings)
    precision = precision_of(settings, page_tokens=settings.prompt_cache_page)
    found = []
    for case in CASES:
        shapes = Shapes(
            slots=max(case.slots, 1),
            step_rows=(case.rows,) if case.slots else (),
            length_buckets=(LENGTH,),
            prefill_buckets=() if case.slots else (case.rows,),
        )
        executor = Executor(
            model.config, model.parameters, shapes, kv_dtype=precision.cache, layout=precision.layout
        )
        built = executor.build(target_store(settings, model.config, shapes, precision))
        program = next(
            ready.compiled
            for listed, ready in zip(executor.programs(), built, strict=True)
            if listed.name.startswith(("step-", "prefill-"))
        )
        kinds = kinds_of(
            program.as_text(),  # type: ignore[attr-defined]  # what JAX compiles or loads has it
            model.config,
            rows=case.rows,
            slots=shapes.slots,
            position=POSITION if case.slots else 0,
            item=jnp.dtype(precision.read).itemsize,
            cache_item=jnp.dtype(precision.cache).itemsize,
        )
        found.append(profiled(case, executor, kinds))
    content = {"length": LENGTH, "position": POSITION, "cases": [asdict(one) for one in found]}
    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def profiled(case: Case, executor: Executor, kinds: Mapping[str, Kind]) -> Profiled:
    """Run one case's program, untraced and traced."""
    run = _call(case, executor)
    seconds = min(timed(run) for _ in range(TIMES + 1))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory(prefix="tierwright-profile-") as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for _ in range(TIMES):
                run()
        times = gathered(_events(Path(folder)))
    return Profiled(case, seconds, operations_of(kinds, times, TIMES))


def _call(case: Case, executor: Executor) -> Callable[[], object]:
    if not case.slots:
        return partial(executor.prefill, 0, 0, list(range(case.rows)), case.rows)
    tokens = np.zeros((case.slots, case.rows), np.int32)
    return partial(executor.step, tokens, np.full(case.slots, POSITION, np.int32))


def _events(folder: Path) -> Iterator[tuple[str, float]]:
    """Names and seconds of everything in a trace."""
    (path,) = folder.rglob("*.xplane.pb")
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            for event in line.events:
                yield event.name, event.duration_ns / 1e9


if __name__ == "__main__":
    sys.exit(main())
