"""The forward pass: a decode step over all slots, and one prefill chunk of one slot. Pure functions to be compiled by shape."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tierwright_worker import native
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.exact import TILE, argmax, attention, linear, rms_norm
from tierwright_worker.models.layout import OneOfPanels, Panels, columns, rows_of
from tierwright_worker.models.parameters import WEIGHTS, Array, LayerParameters, Parameters
from tierwright_worker.models.rope import inverse_frequencies, rotate, rotation
from tierwright_worker.models.slot_cache import SlotCache, cache_of, write_rows


def step(
    config: ModelConfig,
    parameters: Parameters,
    cache: SlotCache,
    tokens: jax.Array,
    positions: jax.Array,
    *,
    axis: str | None = None,
) -> tuple[jax.Array, jax.Array, SlotCache]:
    """Run `tokens` [slots, rows] at `positions` [slots] to `positions + rows - 1`.

    `axis`: the mesh axis over which this is one device's share of the model (models/parallel.py), here and below.

    Rows that a slot does not use may hold any token: what they write lies beyond the slot's length and is overwritten
    before it is seen. Idle slots may stand anywhere; at position 0 they cost least.

    Returns:
        The most probable token of each row [slots, rows], the logits [slots, rows, vocabulary] in f32, the new cache.
    """
    slots = jnp.arange(tokens.shape[0], dtype=jnp.int32)
    hidden, cache = _layers(config, parameters, cache, tokens, slots, positions, TILE, axis)
    hidden = rms_norm(hidden, parameters.norm, config.norm_eps)
    logits = linear(hidden, parameters.head)
    if axis is not None:
        logits = lax.all_gather(logits, axis, axis=2, tiled=True)[..., : config.vocab_size]
    return argmax(logits), logits, cache


def prefill(
    config: ModelConfig,
    parameters: Parameters,
    cache: SlotCache,
    tokens: jax.Array,
    slot: jax.Array,
    position: jax.Array,
    *,
    axis: str | None = None,
) -> SlotCache:
    """Put the keys and values of `tokens` [rows] of one slot into the cache, from `position` on. No logits: a step follows."""
    if isinstance(parameters.head, Panels):
        # The kernels write into the slot where it lies.
        return _layers(config, parameters, cache, tokens[None], slot[None], position[None], None, axis)[1]
    own = jax.tree_util.tree_map(lambda array: lax.dynamic_slice_in_dim(array, slot, 1, axis=0), cache)
    only = jnp.zeros((1,), jnp.int32)
    _, own = _layers(config, parameters, own, tokens[None], only, position[None], None, axis)
    updated: SlotCache = jax.tree_util.tree_map(
        lambda array, part: lax.dynamic_update_slice_in_dim(array, part, slot, axis=0), cache, own
    )
    return updated


def _layers(
    config: ModelConfig,
    parameters: Parameters,
    cache: SlotCache,
    tokens: jax.Array,
    slots: jax.Array,
    positions: jax.Array,
    tile: int | None,
    axis: str | None,
) -> tuple[jax.Array, SlotCache]:
    """All decoder layers: hidden states [slots, rows, hidden] before the last norm, and the new cache.

    `slots`: which slot of the cache each sequence has; JAX's own operations take them to be all, in order.
    """
    frequencies = inverse_frequencies(config)
    rows = tokens.shape[1]
    scale = config.rope_scaling.attention
    angles = rotation(positions[:, None] + jnp.arange(rows, dtype=jnp.int32), frequencies, scale)
    hidden = _embed(parameters, tokens, axis)
    if isinstance(parameters.layers, LayerParameters):
        return _counted(config, parameters.layers, cache, hidden, slots, positions, angles)
    caches = []
    for index, layer in enumerate(parameters.layers):
        mix = partial(_mix, positions=positions, caches=cache.layer(index))
        hidden, updated = _layer(config, layer, hidden, angles, mix, tile, axis)
        caches.append(updated)
    return hidden, cache_of(caches)


def _counted(
    config: ModelConfig,
    layers: LayerParameters,
    cache: SlotCache,
    hidden: jax.Array,
    slots: jax.Array,
    positions: jax.Array,
    angles: tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, SlotCache]:
    """The layers as a loop around one layer's code, for which the kernels choose weights and cache by the layer's number.

    Written out, the program of 30 layers takes several times the memory, and as much longer to load.
    """
    weights = {name: getattr(layers, name) for name in WEIGHTS}
    vectors = replace(layers, **dict.fromkeys(WEIGHTS))

    def body(state: tuple[Any, Any], own: tuple[Any, jax.Array]) -> tuple[tuple[Any, Any], None]:
        hidden, caches = state
        vectors, number = own
        layer = replace(vectors, **{name: OneOfPanels(every, number) for name, every in weights.items()})
        mix = partial(native.attention, slots=slots, positions=positions, caches=caches, layer=number)
        return _layer(config, layer, hidden, angles, mix, None, None), None

    arrays = tuple(group[0] for group in cache.groups() if group)
    numbers = jnp.arange(config.layers, dtype=jnp.int32)
    (hidden, arrays), _ = lax.scan(body, (hidden, arrays), (vectors, numbers))
    return hidden, SlotCache(*((array,) for array in arrays))


def _layer(
    config: ModelConfig,
    layer: LayerParameters,
    hidden: jax.Array,
    angles: tuple[jax.Array, jax.Array],
    mix: Callable[..., tuple[jax.Array, Any]],
    tile: int | None,
    axis: str | None,
) -> tuple[jax.Array, Any]:
    """One layer: the new hidden states, and what `mix` made of the cache."""
    mixed, caches = _attend(config, layer, hidden, angles, mix, tile, axis)
    hidden = hidden + mixed
    return hidden + _mlp(config, layer, hidden, tile, axis), caches


def _embed(parameters: Parameters, tokens: jax.Array, axis: str | None) -> jax.Array:
    """The tokens' embeddings in f32; ids past the vocabulary are clamped, since a gather out of range faults on Neuron."""
    own = parameters.embedding
    vocabulary = parameters.head.shape[1] if own is None else own.shape[0]
    wanted = tokens.reshape(-1)
    if axis is not None:
        # Each device looks up its own part of the vocabulary; the others' zeros change nothing.
        wanted = wanted - lax.axis_index(axis) * vocabulary
    ids = lax.clamp(jnp.int32(0), wanted, jnp.int32(vocabulary - 1))
    vectors = columns(parameters.head, ids) if own is None else rows_of(own, ids)
    if axis is not None:
        vectors = lax.psum(jnp.where((ids == wanted)[:, None], vectors, 0.0), axis)
    return vectors.reshape(*tokens.shape, vectors.shape[-1])


def _attend(
    config: ModelConfig,
    layer: LayerParameters,
    hidden: jax.Array,
    angles: tuple[jax.Array, jax.Array],
    mix: Callable[..., tuple[jax.Array, Any]],
    tile: int | None,
    axis: str | None,
) -> tuple[jax.Array, Any]:
    sequences, rows, _ = hidden.shape
    normed = rms_norm(hidden, layer.attention_norm, config.norm_eps)
    joined = linear(normed, layer.qkv, layer.qkv_bias, tile=tile)
    query, key, value = jnp.split(joined, [config.q_size, config.q_size + config.kv_size], axis=-1)
    query = query.reshape(sequences, rows, config.heads, config.head_dim)
    key = key.reshape(sequences, rows, config.kv_heads, config.head_dim)
    value = value.reshape(sequences, rows, config.kv_heads, config.head_dim)
    if layer.q_norm is not None and layer.k_norm is not None:
        query = rms_norm(query, layer.q_norm, config.norm_eps)
        key = rms_norm(key, layer.k_norm, config.norm_eps)
    query, key = rotate(query, *angles), rotate(key, *angles)
    mixed, caches = mix(query, key, value)
    mixed = mixed.reshape(sequences, rows, config.q_size)
    return _summed(mixed, layer.output, layer.output_bias, tile, axis), caches


def _mix(
    query: jax.Array, key: jax.Array, value: jax.Array, *, positions: jax.Array, caches: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Attention by JAX's own operations over one layer's keys, values and, where there are any, their scales."""
    # Every other array belongs to the keys.
    keys = write_rows(caches[0::2], key, positions)
    values = write_rows(caches[1::2], value, positions)
    mixed = attention(query, keys[0], values[0], positions, (*keys[1:], *values[1:]))
    return mixed, tuple(array for pair in zip(keys, values, strict=True) for array in pair)


def _mlp(
    config: ModelConfig, layer: LayerParameters, hidden: jax.Array, tile: int | None, axis: str | None
) -> jax.Array:
    normed = rms_norm(hidden, layer.mlp_norm, config.norm_eps)
    gate, up = jnp.split(linear(normed, layer.gate_up, layer.gate_up_bias, tile=tile), 2, axis=-1)
    return _summed(jax.nn.silu(gate) * up, layer.down, layer.down_bias, tile, axis)


def _summed(
    rows: jax.Array, weight: Array, bias: Array | None, tile: int | None, axis: str | None
) -> jax.Array:
    """A product whose inputs may lie on several devices; the bias is added once."""
    if axis is None:
        return linear(rows, weight, bias, tile=tile)
    result: jax.Array = lax.psum(linear(rows, weight, tile=tile), axis)
    return result if bias is None else result + bias
