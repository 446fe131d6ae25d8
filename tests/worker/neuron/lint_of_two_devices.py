"""Prints what Neuron would refuse of a model that is cut over two devices; a process of its own, since JAX counts devices once."""

import sys

import jax.numpy as jnp

from dev.worker.models import RANDOM_MODELS
from tierwright_worker.engine.inventory import programs
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.models.config import config_from_hf
from tierwright_worker.neuron.lint import lint

if __name__ == "__main__":
    config = config_from_hf(RANDOM_MODELS["llama"], where="llama")
    shapes = plan_shapes(slots=2, max_context=256, draft_tokens=2)
    bfloat16 = jnp.dtype("bfloat16")
    every = programs(config, shapes, dtype=bfloat16, kv_dtype=bfloat16, page_tokens=64, devices=2)
    sys.stdout.write("\n".join([f"{len(every)} programs", *map(str, lint(every))]))
