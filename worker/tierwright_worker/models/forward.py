"""The forward pass: a decode step over all slots, and one prefill chunk of one slot. Pure functions to be compiled by shape."""

import jax
import jax.numpy as jnp
from jax import lax

from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.exact import TILE, argmax, attention, linear, rms_norm
from tierwright_worker.models.parameters import LayerParameters, Parameters
from tierwright_worker.models.rope import inverse_frequencies, rotate, rotation
from tierwright_worker.models.slot_cache import SlotCache, write_rows


def step(
    config: ModelConfig, parameters: Parameters, cache: SlotCache, tokens: jax.Array, positions: jax.Array
) -> tuple[jax.Array, jax.Array, SlotCache]:
    """Run `tokens` [slots, rows] at `positions` [slots] to `positions + rows - 1`.

    Rows that a slot does not use may hold any token: what they write lies beyond the slot's length and is overwritten
    before it is seen. Idle slots are parked on a position past every used one.

    Returns:
        The most probable token of each row [slots, rows], the logits [slots, rows, vocabulary] in f32, the new cache.
    """
    hidden, cache = _layers(config, parameters, cache, tokens, positions, TILE)
    hidden = rms_norm(hidden, parameters.norm, config.norm_eps)
    logits = linear(hidden, parameters.head)
    return argmax(logits), logits, cache


def prefill(
    config: ModelConfig,
    parameters: Parameters,
    cache: SlotCache,
    tokens: jax.Array,
    slot: jax.Array,
    position: jax.Array,
) -> SlotCache:
    """Put the keys and values of `tokens` [rows] of one slot into the cache, from `position` on. No logits: a step follows."""
    keys = tuple(lax.dynamic_slice_in_dim(array, slot, 1, axis=0) for array in cache.keys)
    values = tuple(lax.dynamic_slice_in_dim(array, slot, 1, axis=0) for array in cache.values)
    _, own = _layers(config, parameters, SlotCache(keys, values), tokens[None], position[None], None)
    return SlotCache(
        keys=_put_slot(cache.keys, own.keys, slot), values=_put_slot(cache.values, own.values, slot)
    )


def _put_slot(
    whole: tuple[jax.Array, ...], parts: tuple[jax.Array, ...], slot: jax.Array
) -> tuple[jax.Array, ...]:
    return tuple(
        lax.dynamic_update_slice_in_dim(array, part, slot, axis=0)
        for array, part in zip(whole, parts, strict=True)
    )


def _layers(
    config: ModelConfig,
    parameters: Parameters,
    cache: SlotCache,
    tokens: jax.Array,
    positions: jax.Array,
    tile: int | None,
) -> tuple[jax.Array, SlotCache]:
    """All decoder layers: hidden states [slots, rows, hidden] before the last norm, and the new cache."""
    frequencies = inverse_frequencies(config)
    rows = tokens.shape[1]
    angles = rotation(positions[:, None] + jnp.arange(rows, dtype=jnp.int32), frequencies)
    hidden = _embed(parameters, tokens)
    keys, values = [], []
    for layer, layer_keys, layer_values in zip(parameters.layers, cache.keys, cache.values, strict=True):
        mixed, new_keys, new_values = _attend(
            config, layer, hidden, layer_keys, layer_values, positions, angles, tile
        )
        hidden = hidden + mixed
        hidden = hidden + _mlp(config, layer, hidden, tile)
        keys.append(new_keys)
        values.append(new_values)
    return hidden, SlotCache(tuple(keys), tuple(values))


def _embed(parameters: Parameters, tokens: jax.Array) -> jax.Array:
    """The tokens' embeddings in f32; ids past the vocabulary are clamped, since a gather out of range faults on Neuron."""
    ids = tokens.reshape(-1, 1)
    own = parameters.embedding
    table = parameters.head if own is None else own
    axis, hidden = (1, table.shape[0]) if own is None else (0, table.shape[1])
    ids = lax.clamp(jnp.int32(0), ids, jnp.int32(table.shape[axis] - 1))
    vectors = lax.gather(
        table,
        ids,
        lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(axis,), start_index_map=(axis,)),
        slice_sizes=(hidden, 1) if own is None else (1, hidden),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    return vectors.reshape(*tokens.shape, hidden).astype(jnp.float32)


def _attend(
    config: ModelConfig,
    layer: LayerParameters,
    hidden: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
    angles: tuple[jax.Array, jax.Array],
    tile: int | None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    slots, rows, _ = hidden.shape
    normed = rms_norm(hidden, layer.attention_norm, config.norm_eps)
    joined = linear(normed, layer.qkv, layer.qkv_bias, tile=tile)
    query, key, value = jnp.split(joined, [config.q_size, config.q_size + config.kv_size], axis=-1)
    query = query.reshape(slots, rows, config.heads, config.head_dim)
    key = key.reshape(slots, rows, config.kv_heads, config.head_dim)
    value = value.reshape(slots, rows, config.kv_heads, config.head_dim)
    if layer.q_norm is not None and layer.k_norm is not None:
        query = rms_norm(query, layer.q_norm, config.norm_eps)
        key = rms_norm(key, layer.k_norm, config.norm_eps)
    query, key = rotate(query, *angles), rotate(key, *angles)
    keys, values = write_rows(keys, key, positions), write_rows(values, value, positions)
    mixed = attention(query, keys, values, positions).reshape(slots, rows, config.q_size)
    return linear(mixed, layer.output, layer.output_bias, tile=tile), keys, values


def _mlp(config: ModelConfig, layer: LayerParameters, hidden: jax.Array, tile: int | None) -> jax.Array:
    normed = rms_norm(hidden, layer.mlp_norm, config.norm_eps)
    gate, up = jnp.split(linear(normed, layer.gate_up, layer.gate_up_bias, tile=tile), 2, axis=-1)
    return linear(jax.nn.silu(gate) * up, layer.down, layer.down_bias, tile=tile)
