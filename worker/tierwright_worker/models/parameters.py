"""The parameters of a decoder as one pytree: weights input-major, projections that share an input joined into one product."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tierwright_worker.models.config import ModelConfig

# Leaves are numpy arrays while a model is loaded and jax arrays afterwards; jax's own alias for both is too narrow.
WEIGHTS = ("qkv", "output", "gate_up", "down")  # the matrices among a layer's parameters
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
    """A whole model. Where the head is the embedding, `embedding` is None: one array serves both, by its columns.

    `layers`: for the kernels one for all, whose arrays have the layer as their first axis.
    """

    embedding: Array | None  # [vocabulary, hidden]
    layers: tuple[LayerParameters, ...] | LayerParameters
    norm: Array  # [hidden]
    head: Array  # [hidden, vocabulary]


def one_by_one(parameters: Parameters) -> tuple[LayerParameters, ...]:
    """The layers of a model whose arrays are not joined.

    Raises:
        TypeError: they are, for the kernels.
    """
    if isinstance(parameters.layers, LayerParameters):
        raise TypeError("the layers are joined for the kernels, and this takes them one by one")
    return parameters.layers


def parameter_shapes(config: ModelConfig, dtype: Any) -> Parameters:
    """The parameters' shapes and dtypes, without their values; norms and biases are f32."""

    def weight(inputs: int, outputs: int) -> Array:
        return jax.ShapeDtypeStruct((inputs, outputs), dtype)

    def vector(size: int, wanted: bool = True) -> Array | None:
        return jax.ShapeDtypeStruct((size,), jnp.float32) if wanted else None

    hidden, joined = config.hidden_size, config.q_size + 2 * config.kv_size
    layer = LayerParameters(
        attention_norm=vector(hidden),
        qkv=weight(hidden, joined),
        qkv_bias=vector(joined, config.qkv_bias),
        q_norm=vector(config.head_dim, config.qk_norm),
        k_norm=vector(config.head_dim, config.qk_norm),
        output=weight(config.q_size, hidden),
        output_bias=vector(hidden, config.output_bias),
        mlp_norm=vector(hidden),
        gate_up=weight(hidden, 2 * config.intermediate_size),
        gate_up_bias=vector(2 * config.intermediate_size, config.mlp_bias),
        down=weight(config.intermediate_size, hidden),
        down_bias=vector(hidden, config.mlp_bias),
    )
    return Parameters(
        embedding=None if config.tied_embeddings else weight(config.vocab_size, hidden),
        layers=(layer,) * config.layers,
        norm=vector(hidden),
        head=weight(hidden, config.vocab_size),
    )
