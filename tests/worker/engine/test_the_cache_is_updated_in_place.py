"""Keys and values are overwritten where they lie: no program that writes them makes a second cache, compiled or loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.worker.support import random_model
from tierwright_worker import native
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.models.layout import PLAIN, Layout
from tierwright_worker.models.slot_cache import cache_bytes

LAYOUTS = [
    pytest.param(PLAIN, "float32", id="plain"),
    pytest.param(
        Layout(kernels=True),
        "int8",
        id="kernels, int8",
        marks=pytest.mark.skipif(
            native.instructions() == "none", reason="the processor's kernels are not built"
        ),
    ),
]
PAGE = 32


def executor(folder: Path, layout: Layout, kv_dtype: str) -> Executor:
    """A small model on two slots with the fewest programs, nothing built yet."""
    config, parameters = random_model("llama", folder)
    shapes = plan_shapes(slots=2, max_context=128, draft_tokens=0, prefill_buckets=(64,))
    return Executor(config, parameters, shapes, layout=layout, kv_dtype=kv_dtype, page_tokens=PAGE)


def arrays(of: Executor) -> list[jax.Array]:
    """All arrays of its cache."""
    return jax.tree_util.tree_leaves(of._cache)


def places(of: Executor) -> list[int]:
    """Where they lie in memory."""
    return [array.unsafe_buffer_pointer() for array in arrays(of)]


def moved(machine: Executor, write: Callable[[], object]) -> bool:
    """Whether a call left anything of the cache that was there before, or gave the new one other memory."""
    before, lie = arrays(machine), places(machine)
    write()
    return places(machine) != lie or not all(array.is_deleted() for array in before)


def copies(machine: Executor) -> list[str]:
    """The calls that did not write in place."""
    machine.prefill(1, 0, range(40), 64)  # the arrays of zeros of a start may be moved, once
    page = machine.to_host(machine.save(1, 0))
    writes: dict[str, Callable[[], object]] = {
        "prefill": lambda: machine.prefill(1, 0, range(40), 64),
        "restore": lambda: machine.restore(page, 0, 0),
        "step": lambda: machine.step(np.ones((2, 1), np.int32), np.asarray([32, 40], np.int32)),
    }
    return [name for name, write in writes.items() if moved(machine, write)]


def shared_bytes(machine: Executor) -> dict[str, int]:
    """By program that writes: how much of its result is memory of its arguments."""
    writing = [program.name for program in machine.programs() if program.donate]
    every: Mapping[str, Any] = machine._programs
    return {name.split("-")[0]: every[name].memory_analysis().alias_size_in_bytes for name in writing}


@pytest.mark.parametrize(("layout", "kv_dtype"), LAYOUTS)
def test_what_was_the_cache_is_gone_and_its_memory_is_the_new_one(
    tmp_path: Path, layout: Layout, kv_dtype: str
) -> None:
    for origin in ("compiled", "loaded"):
        machine = executor(tmp_path, layout, kv_dtype)
        assert {built.origin for built in machine.build(ProgramStore(tmp_path, key="it"))} == {origin}
        whole = cache_bytes(machine.config, 2, 128, kv_dtype)
        assert shared_bytes(machine) == {"step": whole, "prefill": whole, "restore": whole}
        assert copies(machine) == [], origin
