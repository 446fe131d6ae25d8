"""The kernels for processors, and how JAX calls them: products and attention in C++, row-exact for any number of rows.

They are optional. `build.py` compiles them into one library beside this file; without it, and on every other device, the
forward pass is made of JAX's own operations. See docs/decisions/kernels-for-processors.md.
"""

import ctypes
import hashlib
import logging
import os
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

PANEL = 32  # kPanel of kernels.h
GROUP = 32  # kGroup of kernels.h
TURNED = 32  # kTurned of kernels.h: caches may be cut and copied at multiples of it
_LIBRARY = Path(__file__).parent / "_kernels.so"
_TARGETS = ("tierwright_linear", "tierwright_attention", "tierwright_attention_int8")
_log = logging.getLogger(__name__)


@cache
def library() -> ctypes.CDLL | None:
    """The library, known to JAX and set to all processors that this process may use; None where there is none."""
    if not _LIBRARY.is_file():
        return None
    try:
        loaded = ctypes.CDLL(str(_LIBRARY))
        for name in _TARGETS:
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(loaded, name)), platform="cpu")
    except (OSError, AttributeError) as error:
        _log.warning("%s cannot be used (%s); the model runs on JAX's own operations", _LIBRARY, error)
        return None
    loaded.tierwright_instructions.restype = ctypes.c_char_p
    loaded.tierwright_source.restype = ctypes.c_char_p
    if source_digest() not in ("", loaded.tierwright_source().decode()):
        _log.warning("%s was built from another source; build it anew to use it", _LIBRARY)
        return None
    loaded.tierwright_threads(processors())
    return loaded


def source_digest() -> str:
    """A digest of the kernels' source, which the library carries too: it fits no other. Empty where there is no source."""
    files = sorted(path for path in _LIBRARY.parent.iterdir() if path.suffix in (".cpp", ".h"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest() if files else ""


def usable() -> bool:
    """Whether the kernels are there and the default device is the processor."""
    return jax.default_backend() == "cpu" and library() is not None


def instructions() -> str:
    """The instruction set that the kernels use here: avx512, avx2 or generic; `none` without them."""
    loaded = library()
    return "none" if loaded is None else loaded.tierwright_instructions().decode()


def version() -> str:
    """What stored programs depend on: the source and the instruction set of the kernels in use; `none` without them."""
    loaded = library() if usable() else None
    return "none" if loaded is None else f"{loaded.tierwright_source().decode()}|{instructions()}"


def use_threads(count: int) -> None:
    """How many threads share the work, the caller's among them; results do not depend on it."""
    loaded = library()
    if loaded is not None:
        loaded.tierwright_threads(count)


def use_instructions(name: str) -> bool:
    """Use another instruction set than the best; False where this machine has not got it. For tests."""
    loaded = library()
    return loaded is not None and bool(loaded.tierwright_use(name.encode()))


def processors(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Processors that this process may use: its affinity, cut to the limit of its container (cgroup v2), at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cgroup.read_text(encoding="ascii").split()
        limit = count if quota == "max" else max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):
        return count
    return min(count, limit)


def linear(
    rows: jax.Array,
    panels: jax.Array,
    scales: jax.Array | None,
    outputs: int,
    *,
    layer: jax.Array | int,
    layers: int,
) -> jax.Array:
    """`rows` [rows, inputs], f32, times a weight in panels (models/layout.py): [rows, outputs], f32.

    `panels` and `scales` hold the weights of `layers` layers, of which the program takes one by its number `layer` as it
    runs: so it holds one layer's code for all of them, and no weight is copied to be chosen.
    """
    scales = jnp.zeros((0,), jnp.float32) if scales is None else scales
    call = jax.ffi.ffi_call(_TARGETS[0], jax.ShapeDtypeStruct((rows.shape[0], outputs), jnp.float32))
    result: jax.Array = call(rows, jnp.asarray(layer, jnp.int32), panels, scales, layers=np.int64(layers))
    return result


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    slots: jax.Array,
    positions: jax.Array,
    caches: tuple[jax.Array, ...],
    layer: jax.Array | int = 0,
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Write rows into their slots of one layer, then attend causally to all that these hold up to each row.

    Args:
        query: [sequences, rows, heads, head_dim]; `key` and `value` [sequences, rows, kv_heads, head_dim]; all f32.
        slots: [sequences], which slot each sequence has; `positions` [sequences], of its first row.
        caches: keys and values [layers, slots, kv_heads, length, head_dim], f32, bf16 or int8; for int8 then their scales
            [layers, slots, kv_heads, length]. Updated in place.
        layer: which; known when the program runs.

    Returns:
        [sequences, rows, heads, head_dim] in f32, and the caches.
    """
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (query, *caches)]
    name = _TARGETS[1] if len(caches) == 2 else _TARGETS[2]
    aliases = {6 + at: 1 + at for at in range(len(caches))}
    call = jax.ffi.ffi_call(name, shapes, input_output_aliases=aliases)
    mixed, *updated = call(query, key, value, slots, positions, jnp.asarray(layer, jnp.int32), *caches)
    return mixed, tuple(updated)
