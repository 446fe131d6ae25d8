"""No program of any model holds an operation that Neuron refuses, and the lint knows each of those operations."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dev.worker.models import RANDOM_MODELS
from tierwright_worker.cli.platform import choose_platform
from tierwright_worker.engine.inventory import programs
from tierwright_worker.engine.programs import Program
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.errors import SettingsError
from tierwright_worker.models.config import config_from_hf
from tierwright_worker.models.exact import argmax
from tierwright_worker.models.layout import PLAIN, Layout
from tierwright_worker.neuron.lint import lint, lint_program


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in RANDOM_MODELS), ("llama", "bfloat16")]
)
def test_every_program_of_every_model_is_clean(name: str, dtype: str) -> None:
    config = config_from_hf(RANDOM_MODELS[name], where=name)
    shapes = plan_shapes(slots=2, max_context=256, draft_tokens=4)
    every = programs(config, shapes, dtype=jnp.dtype(dtype), kv_dtype=jnp.dtype(dtype), page_tokens=64)
    assert len(every) >= 5
    assert lint(every) == []


def in_numbers(weights: Layout, read: str, cache: str) -> list[Program]:
    """All programs of a small model in these number formats."""
    config = config_from_hf(RANDOM_MODELS["qwen2"], where="qwen2")
    shapes = plan_shapes(slots=2, max_context=256, draft_tokens=2)
    return programs(
        config, shapes, dtype=jnp.dtype(read), kv_dtype=jnp.dtype(cache), page_tokens=64, layout=weights
    )


def test_keys_and_values_of_whole_numbers_are_clean() -> None:
    assert lint(in_numbers(PLAIN, "bfloat16", "int8")) == []


def test_weights_of_whole_numbers_are_refused_there_and_so_by_the_command_line(tmp_path: Path) -> None:
    whys = {finding.why for finding in lint(in_numbers(Layout(int8=True), "float32", "bfloat16"))}
    assert whys == {"products of integers are not supported"}
    with pytest.raises(SettingsError, match="--dtype int8 cannot be computed on neuron"):
        choose_platform("neuron", compile_cache=tmp_path, cores=1, dtype="int8")


def test_a_model_over_two_devices_is_clean() -> None:
    root = Path(__file__).resolve().parents[3]
    path = f"{root / 'worker'}:{root}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.neuron.lint_of_two_devices"],
        env={**os.environ, "PYTHONPATH": path, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    count, *findings = done.stdout.splitlines()
    assert int(count.split()[0]) >= 5
    assert findings == []


FLOATS = jax.ShapeDtypeStruct((4, 8), jnp.float32)
INTEGERS = jax.ShapeDtypeStruct((4, 8), jnp.int8)
INDEX = jax.ShapeDtypeStruct((3,), jnp.int32)

REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "several operands": (lambda x: jnp.argmax(x, axis=-1), (FLOATS,)),
    "dynamic loops": (lambda x: lax.fori_loop(0, jnp.int32(x[0, 0]), lambda _, y: y * 2, x), (FLOATS,)),
    "conditionals": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), (FLOATS,)),
    "products of integers": (
        lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32),
        (INTEGERS,),
    ),
    "complex numbers": (jnp.fft.fft, (FLOATS,)),
    "faults": (lambda x, at: x.at[at].set(1.0), (FLOATS, INDEX)),
    "not clamped": (lambda x, at: x.at[at].get(mode="promise_in_bounds"), (FLOATS, INDEX)),
    "take the largest on the host": (lambda x: lax.top_k(x, 2), (FLOATS,)),
    "host callbacks": (
        lambda x: jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        (FLOATS,),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_the_lint_knows_what_is_refused(why: str) -> None:
    function, arguments = REFUSED[why]
    findings = lint_program(Program("it", function, arguments, None))
    assert any(why in finding.why for finding in findings), [str(finding) for finding in findings]


def test_our_own_argmax_is_allowed_and_takes_the_lowest_of_equals() -> None:
    assert lint_program(Program("argmax", argmax, (FLOATS,), None)) == []
    values = jnp.asarray([[1.0, 5.0, 5.0], [7.0, 2.0, 7.0], [-1e30, -1e30, -1e30]])
    assert argmax(values).tolist() == [1, 0, 0]
