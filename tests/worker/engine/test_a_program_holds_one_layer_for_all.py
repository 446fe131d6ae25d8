"""For the kernels a program's size does not grow with the model's layers, so that many shapes cost little memory."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import pytest
from jax.experimental import serialize_executable

from tests.worker.support import random_model
from tierwright_worker import native
from tierwright_worker.engine.inventory import programs
from tierwright_worker.engine.programs import compile_program
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.layout import Layout

pytestmark = pytest.mark.skipif(not native.usable(), reason="python -m tierwright_worker.native.build")


def sizes(config: ModelConfig, kv_dtype: str) -> dict[str, int]:
    """Bytes of a step, a chunk of a prompt, a page's way in and out, as they are stored."""
    shapes = plan_shapes(slots=2, max_context=128, draft_tokens=0)
    built = programs(
        config,
        shapes,
        dtype=jnp.dtype("float32"),
        kv_dtype=jnp.dtype(kv_dtype),
        page_tokens=32,
        layout=Layout(kernels=True, int8=kv_dtype == "int8"),
    )
    return {
        program.name: len(serialize_executable.serialize(compile_program(program))[0]) for program in built
    }


@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
def test_three_times_the_layers_take_no_more_room(tmp_path: Path, kv_dtype: str) -> None:
    config, _ = random_model("qwen3_tied", tmp_path)
    few, many = (sizes(replace(config, layers=layers), kv_dtype) for layers in (3, 9))
    assert set(few) == {"step-1-128", "prefill-64-128", "save-128", "restore-128"}
    assert {name: many[name] / few[name] for name in few} == pytest.approx(dict.fromkeys(few, 1.0), abs=0.05)
