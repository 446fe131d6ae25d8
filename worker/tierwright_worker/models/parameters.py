"""The parameters of a decoder as one pytree: weights input-major, projections that share an input joined into one product."""

from dataclasses import dataclass
from typing import Any

import jax

# Leaves are numpy arrays while a model is loaded and jax arrays afterwards; jax's own alias for both is too narrow.
Array = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class LayerParameters:
    """One decoder layer. Weights are [inputs, outputs]; biases and norms are vectors, None where the model has none."""

    attention_norm: Array  # [hidden]
    qkv: Array  # [hidden, q_size + 2 * kv_size]
    qkv_bias: Array | None
    q_norm: Array | None  # [head_dim]
    k_norm: Array | None  # [head_dim]
    output: Array  # [q_size, hidden]
    output_bias: Array | None
    mlp_norm: Array  # [hidden]
    gate_up: Array  # [hidden, 2 * intermediate]
    gate_up_bias: Array | None
    down: Array  # [intermediate, hidden]
    down_bias: Array | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class Parameters:
    """A whole model. Where the head is the embedding, `embedding` is None: one array serves both, by its columns."""

    embedding: Array | None  # [vocabulary, hidden]
    layers: tuple[LayerParameters, ...]
    norm: Array  # [hidden]
    head: Array  # [hidden, vocabulary]


def parameter_bytes(parameters: Parameters) -> int:
    """Bytes of all arrays."""
    return sum(int(leaf.nbytes) for leaf in jax.tree_util.tree_leaves(parameters))
