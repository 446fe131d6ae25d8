"""Products and attention whose rows are rounded alike in every shape: the row-exact building blocks of the forward pass.

XLA's CPU products pick their order of additions by shape. Measured on jaxlib 0.10 and kept by tests and by the proof at
warm-up: with weights [inputs, outputs] and two to TILE rows, a row's result depends on nothing but that row; so a lone row
is computed as two and more rows are computed in tiles. (Weights [outputs, inputs] would need no tiles, but such products
are up to twice as slow.) A sum over positions is cut into blocks of BLOCK, each a product of the same shape, folded in
order: a longer bucket adds exact zeros. Programs must be compiled with COMPILER_OPTIONS.
"""

import jax
import jax.numpy as jnp
from jax import lax

from tierwright_worker import native
from tierwright_worker.models.layout import Int8, OneOfPanels, Panels
from tierwright_worker.models.parameters import Array
from tierwright_worker.native import GROUP

# XLA fuses products with what surrounds them into kernels whose reductions depend on the shape (one of them, a product with
# broadcast ones, even gave NaN). With single products alone the reductions are XLA's own, which do not.
COMPILER_OPTIONS: dict[str, dict[str, str | bool]] = {
    "cpu": {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"},
}
TILE = 32  # rows of one product
BLOCK = 128  # positions per block of attention; length buckets are multiples of it
_MOST_INT16 = 32639.0  # 127 * 256 + 127: what a high and a low byte of int8 hold together
_MASKED = -1e30  # finite, since a fully masked row must not become NaN; its exponential is an exact zero


def linear(
    rows: jax.Array, weight: Array, bias: jax.Array | None = None, *, tile: int | None = TILE
) -> jax.Array:
    """`rows` [..., inputs] times `weight` [inputs, outputs] in any layout, in f32.

    A plain weight rounds the rows to its own dtype first. `tile` None computes all rows in one product: faster for many
    rows, and exact among shapes of 64 rows and more; the kernels need no tiles.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    if isinstance(weight, Panels):
        result = native.linear(flat, weight.values, weight.scales, weight.outputs, layer=0, layers=1)
    elif isinstance(weight, OneOfPanels):
        own, layers = weight.every, weight.every.values.shape[0]
        result = native.linear(flat, own.values, own.scales, own.outputs, layer=weight.number, layers=layers)
    elif isinstance(weight, Int8):
        result = _whole_product(flat, weight)
    else:
        flat = flat.astype(weight.dtype)
        count = flat.shape[0]
        size = tile or count
        parts = [_product(flat[start : start + size], weight) for start in range(0, count, size)]
        result = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    result = result.reshape(*rows.shape[:-1], result.shape[1])
    return result if bias is None else result + bias.astype(jnp.float32)


def _whole_product(rows: jax.Array, weight: Int8) -> jax.Array:
    """Rows of 16-bit whole numbers times int8 weights, each row as two of int8: its high and its low byte."""
    count, (groups, _, _) = rows.shape[0], weight.values.shape
    padded = jnp.pad(rows, ((0, 0), (0, groups * GROUP - rows.shape[1]))).reshape(count, groups, GROUP)
    largest = jnp.max(jnp.abs(padded), axis=2)
    inverse = jnp.where(largest > 0, _MOST_INT16 / largest, 0.0)
    whole = jnp.round(padded * inverse[..., None]).astype(jnp.int32)
    high = (whole + 128) >> 8
    bytes_ = jnp.concatenate([high, whole - (high << 8)]).astype(jnp.int8)
    sums = lax.dot_general(
        bytes_, weight.values, (((2,), (1,)), ((1,), (0,))), preferred_element_type=jnp.int32
    )
    joined = (sums[:, :count] * 256 + sums[:, count:]).astype(jnp.float32)
    scales = (largest / _MOST_INT16).T[..., None] * weight.scales[:, None]
    return jnp.sum(joined * scales, axis=0)


def _product(rows: jax.Array, weight: jax.Array) -> jax.Array:
    """One product of at least two rows; barriers keep XLA from seeing that one of two equal rows is not used."""
    count = rows.shape[0]
    if count == 1:
        rows = lax.optimization_barrier(jnp.concatenate([rows, rows]))
    result = lax.dot_general(rows, weight, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
    return lax.optimization_barrier(result)[:count] if count == 1 else result


def attention(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
    scales: tuple[jax.Array, ...] = (),
) -> jax.Array:
    """Causal attention of rows over a slot's cache; row t of a slot sees positions 0 to `positions[slot] + t`.

    Args:
        query: [slots, rows, heads, head_dim], f32.
        keys: [slots, kv_heads, length, head_dim]; `length` a multiple of BLOCK. `values` alike.
        positions: [slots], the position of each slot's first row.
        scales: of int8 keys and of int8 values, [slots, kv_heads, length] each; none for other dtypes.

    Returns:
        [slots, rows, heads, head_dim], f32.
    """
    if scales:
        keys, values = (
            array.astype(jnp.float32) * scale[..., None]
            for array, scale in zip((keys, values), scales, strict=True)
        )
    slots, rows, heads, head_dim = query.shape
    kv_heads, length = keys.shape[1], keys.shape[2]
    group, blocks = heads // kv_heads, length // BLOCK
    scaled = query * jnp.float32(head_dim**-0.5)
    grouped = scaled.reshape(slots, rows, kv_heads, group, head_dim).swapaxes(1, 2)
    grouped = grouped.reshape(slots, kv_heads, rows * group, head_dim).astype(keys.dtype)
    if rows * group == 1:
        grouped = lax.optimization_barrier(jnp.concatenate([grouped, grouped], axis=2))
    lines = grouped.shape[2]
    scores = lax.dot_general(
        grouped, keys, (((3,), (3,)), ((0, 1), (0, 1))), preferred_element_type=jnp.float32
    )
    seen = positions[:, None] + jnp.arange(lines, dtype=jnp.int32) // group
    visible = jnp.arange(length, dtype=jnp.int32) <= seen[:, None, :, None]
    scores = jnp.where(visible, scores, _MASKED)
    weights = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    weights = weights.reshape(slots, kv_heads, lines, blocks, BLOCK)
    total = _fold(jnp.sum(weights, axis=-1), axis=-1)
    blocked = values.reshape(slots, kv_heads, blocks, BLOCK, head_dim)
    partial = lax.dot_general(
        weights.astype(values.dtype),
        blocked,
        (((4,), (3,)), ((0, 1, 3), (0, 1, 2))),
        preferred_element_type=jnp.float32,
    )
    mixed = _fold(partial, axis=2) / total[..., None]
    if rows * group == 1:
        mixed = lax.optimization_barrier(mixed)
    mixed = mixed[:, :, : rows * group].reshape(slots, kv_heads, rows, group, head_dim)
    return mixed.swapaxes(1, 2).reshape(slots, rows, heads, head_dim)


def _fold(parts: jax.Array, axis: int) -> jax.Array:
    """The sum along an axis, added strictly from the first part to the last."""
    slices = [jnp.squeeze(part, axis) for part in jnp.split(parts, parts.shape[axis], axis)]
    result = slices[0]
    for part in slices[1:]:
        result = result + part
    return result


def rms_norm(rows: jax.Array, weight: jax.Array, epsilon: float) -> jax.Array:
    """Root-mean-square norm over the last axis, in f32."""
    variance = jnp.mean(rows * rows, axis=-1, keepdims=True)
    return rows * lax.rsqrt(variance + jnp.float32(epsilon)) * weight.astype(jnp.float32)


def argmax(logits: jax.Array) -> jax.Array:
    """The lowest index of the largest value along the last axis; without a two-operand reduce, which Neuron refuses."""
    largest = jnp.max(logits, axis=-1, keepdims=True)
    size = logits.shape[-1]
    index = jnp.arange(size, dtype=jnp.int32)
    return jnp.min(jnp.where(logits == largest, index, jnp.int32(size - 1)), axis=-1)
