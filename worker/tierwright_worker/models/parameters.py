"""The parameters of a decoder as one pytree: weights output-major, projections that share an input joined into one product."""

from dataclasses import dataclass
from typing import Any

import jax

# Leaves are numpy arrays while a model is loaded and jax arrays afterwards; jax's own alias for both is too narrow.
Array = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class LayerParameters:
    """One decoder layer. Weights are [outputs, inputs]; biases and norms are vectors, None where the model has none."""

    attention_norm: Array  # [hidden]
    qkv: Array  # [q_size + 2 * kv_size, hidden]
    qkv_bias: Array | None
    q_norm: Array | None  # [head_dim]
    k_norm: Array | None  # [head_dim]
    output: Array  # [hidden, q_size]
    output_bias: Array | None
    mlp_norm: Array  # [hidden]
    gate_up: Array  # [2 * intermediate, hidden]
    gate_up_bias: Array | None
    down: Array  # [hidden, intermediate]
    down_bias: Array | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class Parameters:
    """A whole model. `head` is None where it is the embedding."""

    embedding: Array  # [vocabulary, hidden]
    layers: tuple[LayerParameters, ...]
    norm: Array  # [hidden]
    head: Array | None  # [vocabulary, hidden]


def parameter_bytes(parameters: Parameters) -> int:
    """Bytes of all arrays."""
    return sum(int(leaf.nbytes) for leaf in jax.tree_util.tree_leaves(parameters))
