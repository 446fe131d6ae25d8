"""Puts tensors together into the worker's parameters: checks every shape, joins projections, casts to one dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tierwright_worker.errors import CorruptModelError
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.parameters import Array, LayerParameters, Parameters
from tierwright_worker.weights.source import DTYPES, HostArray, TensorSource

_NORM_DTYPE = np.dtype(np.float32)  # norms and biases are small, and are used in f32


def _as_it_is(array: HostArray) -> Array:
    return array


def load_parameters(
    source: TensorSource,
    config: ModelConfig,
    dtype: str,
    *,
    place: Callable[[HostArray], Array] = _as_it_is,
    arrange: Callable[[Array], Array] = _as_it_is,
) -> Parameters:
    """All parameters; weights in `dtype` (float32 or bfloat16), norms and biases in f32.

    `place` puts each array where it is to stay as soon as it is read, so that the model never lies in memory twice.
    `arrange` then lays out each weight [inputs, outputs] as the forward pass wants it.

    Raises:
        CorruptModelError: a tensor is missing, has another shape than the configuration says, or is not finite.
    """
    take = _Taker(source, DTYPES[dtype], place, arrange)
    hidden, vocabulary = config.hidden_size, config.vocab_size
    tied = config.tied_embeddings
    embedding = None if tied else take.rows("model.embed_tokens.weight", (vocabulary, hidden))
    layers = tuple(_layer(take, config, f"model.layers.{index}.") for index in range(config.layers))
    norm = take.vector("model.norm.weight", hidden)
    head = take.weight("model.embed_tokens.weight" if tied else "lm_head.weight", (vocabulary, hidden))
    return Parameters(embedding=embedding, layers=layers, norm=norm, head=head)


def _layer(take: "_Taker", config: ModelConfig, prefix: str) -> LayerParameters:
    hidden, ffn = config.hidden_size, config.intermediate_size
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    sizes = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
    gates = {"gate_proj": ffn, "up_proj": ffn}
    return LayerParameters(
        attention_norm=take.vector(f"{prefix}input_layernorm.weight", hidden),
        qkv=take.joined(attention, sizes, hidden),
        qkv_bias=take.joined_bias(attention, sizes) if config.qkv_bias else None,
        q_norm=take.vector(f"{attention}q_norm.weight", config.head_dim) if config.qk_norm else None,
        k_norm=take.vector(f"{attention}k_norm.weight", config.head_dim) if config.qk_norm else None,
        output=take.weight(f"{attention}o_proj.weight", (hidden, config.q_size)),
        output_bias=take.vector(f"{attention}o_proj.bias", hidden) if config.output_bias else None,
        mlp_norm=take.vector(f"{prefix}post_attention_layernorm.weight", hidden),
        gate_up=take.joined(mlp, gates, hidden),
        gate_up_bias=take.joined_bias(mlp, gates) if config.mlp_bias else None,
        down=take.weight(f"{mlp}down_proj.weight", (hidden, ffn)),
        down_bias=take.vector(f"{mlp}down_proj.bias", hidden) if config.mlp_bias else None,
    )


class _Taker:
    """Reads tensors with their shape checked."""

    def __init__(
        self,
        source: TensorSource,
        dtype: np.dtype[Any],
        place: Callable[[HostArray], Array],
        arrange: Callable[[Array], Array],
    ) -> None:
        self._source, self._dtype, self._place, self._arrange = source, dtype, place, arrange
        self._names = source.names()

    def rows(self, name: str, shape: tuple[int, ...]) -> Array:
        """A matrix as it is stored."""
        return self._place(np.ascontiguousarray(self._take(name, shape, self._dtype)))

    def weight(self, name: str, shape: tuple[int, ...]) -> Array:
        """A matrix stored [outputs, inputs], turned to [inputs, outputs]."""
        return self._arrange(self._place(np.ascontiguousarray(self._take(name, shape, self._dtype).T)))

    def vector(self, name: str, size: int) -> Array:
        """A norm or a bias."""
        return self._place(self._take(name, (size,), _NORM_DTYPE))

    def joined(self, prefix: str, sizes: dict[str, int], inputs: int) -> Array:
        """Several matrices of the same inputs, turned and side by side."""
        result = np.empty((inputs, sum(sizes.values())), self._dtype)
        start = 0
        for name, size in sizes.items():
            result[:, start : start + size] = self._take(
                f"{prefix}{name}.weight", (size, inputs), self._dtype
            ).T
            start += size
        return self._arrange(self._place(result))

    def joined_bias(self, prefix: str, sizes: dict[str, int]) -> Array:
        """Their biases, end to end."""
        parts = [self._take(f"{prefix}{name}.bias", (size,), _NORM_DTYPE) for name, size in sizes.items()]
        return self._place(np.concatenate(parts))

    def _take(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        where = self._source.where()
        if name not in self._names:
            raise CorruptModelError(f"{where} holds no tensor {name!r}, which its configuration calls for")
        tensor = self._source.read(name)
        if tensor.shape != shape:
            raise CorruptModelError(
                f"{where}: tensor {name!r} is {list(tensor.shape)}, and the configuration says {list(shape)}"
            )
        # A sum is finite only where all of its terms are; it reads the tensor once and allocates nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(np.sum(tensor, dtype=np.float64)))
        if not finite:
            raise CorruptModelError(f"{where}: tensor {name!r} holds values that are not finite")
        return tensor.astype(dtype, copy=False)
