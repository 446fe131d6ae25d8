"""The slot cache: keys and values of every slot, head-major, one pair of arrays per layer, updated in place."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tierwright_worker.models.config import ModelConfig


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class SlotCache:
    """`keys` and `values`: per layer [slots, kv_heads, length, head_dim]. Its length is the length bucket in use."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def length(self) -> int:
        """Positions that each slot can hold now."""
        return int(self.keys[0].shape[2])


def empty_cache(config: ModelConfig, slots: int, length: int, dtype: Any) -> SlotCache:
    """A cache of zeros."""
    shape = (slots, config.kv_heads, length, config.head_dim)

    def zeros() -> tuple[jax.Array, ...]:
        return tuple(jnp.zeros(shape, dtype) for _ in range(config.layers))

    return SlotCache(keys=zeros(), values=zeros())


def cache_bytes(config: ModelConfig, slots: int, length: int, itemsize: int) -> int:
    """Bytes of a cache of this size."""
    return 2 * config.layers * slots * config.kv_heads * length * config.head_dim * itemsize


def write_rows(cache: jax.Array, rows: jax.Array, positions: jax.Array) -> jax.Array:
    """Write `rows` [slots, rows, kv_heads, head_dim] at each slot's position; a start beyond the end is clamped by XLA."""
    updates = rows.swapaxes(1, 2).astype(cache.dtype)
    zero = jnp.int32(0)
    for slot in range(cache.shape[0]):
        cache = lax.dynamic_update_slice(
            cache, updates[slot : slot + 1], (jnp.int32(slot), zero, positions[slot], zero)
        )
    return cache


def read_page(cache: SlotCache, slot: jax.Array, start: jax.Array, *, tokens: int) -> jax.Array:
    """Copy `tokens` positions of one slot: [2, layers, kv_heads, tokens, head_dim], keys first."""

    def read(array: jax.Array) -> jax.Array:
        _, heads, _, size = array.shape
        zero = jnp.int32(0)
        return lax.dynamic_slice(array, (slot, zero, start, zero), (1, heads, tokens, size))[0]

    return jnp.stack([jnp.stack([read(array) for array in arrays]) for arrays in (cache.keys, cache.values)])


def write_page(cache: SlotCache, page: jax.Array, slot: jax.Array, start: jax.Array) -> SlotCache:
    """Put what `read_page` copied into a slot, from `start` on."""
    zero = jnp.int32(0)

    def write(arrays: tuple[jax.Array, ...], parts: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(
            lax.dynamic_update_slice(array, parts[layer][None], (slot, zero, start, zero))
            for layer, array in enumerate(arrays)
        )

    return SlotCache(write(cache.keys, page[0]), write(cache.values, page[1]))


def resize(array: jax.Array, length: int) -> jax.Array:
    """The cache array with room for `length` positions; what lies beyond is dropped."""
    if length <= array.shape[2]:
        return array[:, :, :length]
    return jnp.pad(array, ((0, 0), (0, 0), (0, length - array.shape[2]), (0, 0)))
