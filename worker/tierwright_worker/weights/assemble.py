"""Puts tensors together into the worker's parameters: checks every shape, joins projections, casts to one dtype."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tierwright_worker.errors import CorruptModelError
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.layout import PLAIN, Layout, empty_panels, fill, from_stored
from tierwright_worker.models.parameters import WEIGHTS, Array, LayerParameters, Parameters
from tierwright_worker.native.packing import Pages
from tierwright_worker.weights.source import DTYPES, HostArray, TensorSource

_NORM_DTYPE = np.dtype(np.float32)  # norms and biases are small, and are used in f32


def _as_it_is(array: Array) -> Array:
    return array


def load_parameters(
    source: TensorSource,
    config: ModelConfig,
    dtype: str,
    *,
    layout: Layout = PLAIN,
    place: Callable[[Array], Array] = _as_it_is,
) -> Parameters:
    """All parameters; weights in `dtype` (float32 or bfloat16), norms and biases in f32.

    `layout`: how each weight, which is stored [outputs, inputs], is to lie. `place` puts each array where it is to stay as
    soon as it is read, so that the model never lies in memory twice. The largest array comes first, for it needs most room
    beside itself.

    Raises:
        CorruptModelError: a tensor is missing, has another shape than the configuration says, or is not finite.
    """
    take, memory = _Taker(source, DTYPES[dtype]), Pages()
    hidden, vocabulary = config.hidden_size, config.vocab_size
    tied = config.tied_embeddings
    head = take.matrix("model.embed_tokens.weight" if tied else "lm_head.weight", (vocabulary, hidden))
    placed_head = place(from_stored(head, layout, memory))
    del head
    embedding = None if tied else place(take.matrix("model.embed_tokens.weight", (vocabulary, hidden)))
    read = partial(_layer, take, config)
    joined = layout.kernels
    return Parameters(
        embedding=embedding,
        layers=place(_stacked(read, config.layers, layout, memory))
        if joined
        else tuple(_placed(read(index), layout, memory, place) for index in range(config.layers)),
        norm=place(take.vector("model.norm.weight", hidden)),
        head=placed_head,
    )


def _placed(
    read: Iterable[tuple[str, HostArray]], layout: Layout, memory: Pages, place: Callable[[Array], Array]
) -> LayerParameters:
    """One layer, each array arranged and put in its place before the next is read."""
    fields: dict[str, Array] = dict.fromkeys(field.name for field in dataclasses.fields(LayerParameters))
    for name, stored in read:
        fields[name] = place(from_stored(stored, layout, memory) if name in WEIGHTS else stored)
    return LayerParameters(**fields)


def _stacked(
    read: Callable[[int], Iterable[tuple[str, HostArray]]], layers: int, layout: Layout, memory: Pages
) -> LayerParameters:
    """All layers in one, each array written to where it stays before the next is read."""
    fields: dict[str, Array] = dict.fromkeys(field.name for field in dataclasses.fields(LayerParameters))
    for layer in range(layers):
        for name, stored in read(layer):
            matrix = name in WEIGHTS
            if fields[name] is None:
                room = partial(memory.take, (layers, *stored.shape), stored.dtype)
                fields[name] = empty_panels(stored, layout, memory, (layers,)) if matrix else room()
            if matrix:
                fill(fields[name], stored, (layer,))
            else:
                fields[name][layer] = stored
    return LayerParameters(**fields)


def _layer(take: "_Taker", config: ModelConfig, index: int) -> Iterator[tuple[str, HostArray]]:
    """One layer's arrays under their names in LayerParameters, matrices [outputs, inputs]; those that there are."""
    hidden, ffn = config.hidden_size, config.intermediate_size
    prefix = f"model.layers.{index}."
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    sizes = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
    gates = {"gate_proj": ffn, "up_proj": ffn}
    yield "attention_norm", take.vector(f"{prefix}input_layernorm.weight", hidden)
    yield "qkv", take.joined(attention, sizes, hidden)
    if config.qkv_bias:
        yield "qkv_bias", take.joined_bias(attention, sizes)
    if config.qk_norm:
        yield "q_norm", take.vector(f"{attention}q_norm.weight", config.head_dim)
        yield "k_norm", take.vector(f"{attention}k_norm.weight", config.head_dim)
    yield "output", take.matrix(f"{attention}o_proj.weight", (hidden, config.q_size))
    if config.output_bias:
        yield "output_bias", take.vector(f"{attention}o_proj.bias", hidden)
    yield "mlp_norm", take.vector(f"{prefix}post_attention_layernorm.weight", hidden)
    yield "gate_up", take.joined(mlp, gates, hidden)
    if config.mlp_bias:
        yield "gate_up_bias", take.joined_bias(mlp, gates)
    yield "down", take.matrix(f"{mlp}down_proj.weight", (hidden, ffn))
    if config.mlp_bias:
        yield "down_bias", take.vector(f"{mlp}down_proj.bias", hidden)


class _Taker:
    """Reads tensors with their shape checked."""

    def __init__(self, source: TensorSource, dtype: np.dtype[Any]) -> None:
        self._source, self._dtype = source, dtype
        self._names = source.names()

    def matrix(self, name: str, shape: tuple[int, ...]) -> HostArray:
        """A matrix as it is stored, [outputs, inputs]."""
        return self._take(name, shape, self._dtype)

    def vector(self, name: str, size: int) -> HostArray:
        """A norm or a bias."""
        return self._take(name, (size,), _NORM_DTYPE)

    def joined(self, prefix: str, sizes: dict[str, int], inputs: int) -> HostArray:
        """Several matrices of the same inputs, their outputs end to end."""
        return np.concatenate(
            [self.matrix(f"{prefix}{name}.weight", (size, inputs)) for name, size in sizes.items()]
        )

    def joined_bias(self, prefix: str, sizes: dict[str, int]) -> HostArray:
        """Their biases, end to end."""
        return np.concatenate([self.vector(f"{prefix}{name}.bias", size) for name, size in sizes.items()])

    def _take(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        where = self._source.where()
        if name not in self._names:
            raise CorruptModelError(
                f"{where} holds no tensor {name!r}, which its configuration calls for; fetch all of the model again"
            )
        tensor = self._source.read(name)
        if tensor.shape != shape:
            raise CorruptModelError(
                f"{where}: tensor {name!r} is {list(tensor.shape)}, and the configuration says {list(shape)}"
            )
        # A sum is finite only where all of its terms are; it reads the tensor once and allocates nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(np.sum(tensor, dtype=np.float64)))
        if not finite:
            raise CorruptModelError(
                f"{where}: tensor {name!r} holds values that are not finite; fetch it again, or use other weights"
            )
        return tensor.astype(dtype, copy=False)
