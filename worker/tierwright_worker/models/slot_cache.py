"""The slot cache: keys and values of every slot, head-major, one pair of arrays per layer or for all, updated in place.

int8: a scale per position and head, the largest magnitude over 127, in arrays of their own.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tierwright_worker.models.config import ModelConfig

_STACKED = 5  # axes of keys that hold all layers


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class SlotCache:
    """`keys` and `values`: per layer [slots, kv_heads, length, head_dim]. Its length is the length bucket in use.

    `key_scales` and `value_scales`: per layer [slots, kv_heads, length] in f32; empty unless keys and values are int8.
    For the kernels each of the four is one array, whose first axis is the layer.
    """

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    key_scales: tuple[Any, ...] = ()
    value_scales: tuple[Any, ...] = ()

    def layer(self, index: int) -> tuple[Any, ...]:
        """One layer's keys and values, and their scales where there are any."""
        return tuple(arrays[index] for arrays in self.groups() if arrays)

    def groups(self) -> tuple[tuple[Any, ...], ...]:
        """Keys, values and their scales, each a tuple over layers."""
        return self.keys, self.values, self.key_scales, self.value_scales

    @property
    def length(self) -> int:
        """Positions that each slot can hold now."""
        return int(self.keys[0].shape[-2])

    @property
    def stacked(self) -> bool:
        """Whether one array holds all layers."""
        return bool(self.keys[0].ndim == _STACKED)


def cache_of(layers: list[tuple[Any, ...]]) -> SlotCache:
    """The cache out of what `SlotCache.layer` gave for each layer."""
    return SlotCache(*(tuple(arrays) for arrays in zip(*layers, strict=True)))


def cache_shape(
    config: ModelConfig, slots: int, length: int, dtype: Any, *, stacked: bool = False
) -> SlotCache:
    """The shapes and dtypes of a cache; `stacked`: with one array for all layers, as the kernels take it."""
    shape = (slots, config.kv_heads, length, config.head_dim)

    def arrays(sizes: tuple[int, ...], kind: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        if stacked:
            return (jax.ShapeDtypeStruct((config.layers, *sizes), kind),)
        return (jax.ShapeDtypeStruct(sizes, kind),) * config.layers

    if jnp.dtype(dtype) != jnp.int8:
        return SlotCache(keys=arrays(shape, dtype), values=arrays(shape, dtype))
    scales = [arrays(shape[:3], jnp.float32) for _ in range(2)]
    return SlotCache(arrays(shape, dtype), arrays(shape, dtype), *scales)


def empty_cache(
    config: ModelConfig, slots: int, length: int, dtype: Any, *, stacked: bool = False
) -> SlotCache:
    """A cache of zeros, see `cache_shape`."""

    def zeros(shape: jax.ShapeDtypeStruct) -> jax.Array:
        # Zeros of numpy's are pages that the system has yet to give; making them on the device would compile a program.
        array: jax.Array = jax.device_put(np.zeros(shape.shape, shape.dtype), may_alias=False)
        return array

    cache: SlotCache = jax.tree_util.tree_map(
        zeros, cache_shape(config, slots, length, dtype, stacked=stacked)
    )
    return cache


def cache_bytes(config: ModelConfig, slots: int, length: int, dtype: Any) -> int:
    """Bytes of a cache of this size."""
    kind = jnp.dtype(dtype)
    position = config.head_dim * int(kind.itemsize) + (4 if kind == jnp.int8 else 0)
    return 2 * config.layers * slots * config.kv_heads * length * position


def write_rows(caches: tuple[jax.Array, ...], rows: jax.Array, positions: jax.Array) -> tuple[jax.Array, ...]:
    """Write `rows` [slots, rows, kv_heads, head_dim] at each slot's position; a start beyond the end is clamped by XLA.

    `caches`: the keys (or values) of one layer, and their scales where they are int8.
    """
    updates = rows.swapaxes(1, 2)
    if len(caches) == 1:
        return (_write(caches[0], updates.astype(caches[0].dtype), positions),)
    largest = jnp.max(jnp.abs(updates), axis=-1)
    inverse = jnp.where(largest > 0, 127.0 / largest, 0.0)
    whole = jnp.round(updates * inverse[..., None]).astype(jnp.int8)
    return _write(caches[0], whole, positions), _write(caches[1], largest / 127.0, positions)


def _write(cache: jax.Array, updates: jax.Array, positions: jax.Array) -> jax.Array:
    zero = jnp.int32(0)
    for slot in range(cache.shape[0]):
        start = (jnp.int32(slot), zero, positions[slot], zero)[: cache.ndim]
        cache = lax.dynamic_update_slice(cache, updates[slot : slot + 1], start)
    return cache


def read_page(cache: SlotCache, slot: jax.Array, start: jax.Array, *, tokens: int) -> tuple[jax.Array, ...]:
    """Copy `tokens` positions of one slot: keys and values [2, layers, kv_heads, tokens, head_dim], then their scales."""
    pairs = [(cache.keys, cache.values)] + [(cache.key_scales, cache.value_scales)] * bool(cache.key_scales)
    zero, layers = jnp.int32(0), int(cache.stacked)

    def read(array: jax.Array) -> jax.Array:
        _, heads, _, *rest = array.shape[layers:]
        at = (*[zero] * layers, slot, zero, start, zero)[: array.ndim]
        part = lax.dynamic_slice(array, at, (*array.shape[:layers], 1, heads, tokens, *rest))
        return jnp.squeeze(part, layers)

    def joined(arrays: tuple[jax.Array, ...]) -> jax.Array:
        return read(arrays[0]) if cache.stacked else jnp.stack([read(array) for array in arrays])

    return tuple(jnp.stack([joined(arrays) for arrays in pair]) for pair in pairs)


def write_page(cache: SlotCache, page: tuple[jax.Array, ...], slot: jax.Array, start: jax.Array) -> SlotCache:
    """Put what `read_page` copied into a slot, from `start` on."""
    zero, layers = jnp.int32(0), int(cache.stacked)
    parts = [part[which] for part in page for which in range(2)]

    def write(array: jax.Array, part: jax.Array) -> jax.Array:
        at = (*[zero] * layers, slot, zero, start, zero)[: array.ndim]
        return lax.dynamic_update_slice(array, jnp.expand_dims(part, layers), at)

    return SlotCache(
        *(
            (write(arrays[0], part),)
            if cache.stacked
            else tuple(write(array, part[layer]) for layer, array in enumerate(arrays))
            for arrays, part in zip((group for group in cache.groups() if group), parts, strict=True)
        )
    )


def resize(array: jax.Array, length: int, *, axis: int) -> jax.Array:
    """A cache array, or its scales, with room for `length` positions along `axis`; what lies beyond is dropped."""
    there = array.shape[axis]
    if length <= there:
        return lax.slice_in_dim(array, 0, length, axis=axis)
    padding = [(0, 0)] * array.ndim
    padding[axis] = (0, length - there)
    return jnp.pad(array, padding)
