"""Packs weights for the kernels: from arrays as files store them straight into panels, in large pages that JAX takes as they are."""

import contextlib
import ctypes
import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from tierwright_worker.native import GROUP, PANEL, library

Host = npt.NDArray[Any]
_CHUNK = 64 << 20
_LARGE = 2 << 20  # a large page of the processors that there are
_ALIGNED = 64  # what XLA asks of memory that it is to use without a copy


class Pages:
    """Memory for arrays that live as long as a model: chunk by chunk from the system, in large pages where it has them.

    Weights are read from start to end by every step, and looking up small pages costs a tenth of that. The C library's heap
    would give small ones, and keep what was freed. A chunk goes back when all arrays in it are dropped.
    """

    def __init__(self) -> None:
        """Nothing is taken yet."""
        self._rest = np.empty(0, np.uint8)

    def take(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Host:
        """An array of zeros."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        room = -(-size // _ALIGNED) * _ALIGNED
        if room > len(self._rest):
            fresh = _chunk(max(room, _CHUNK))
            if room >= _CHUNK:  # what is left of the last chunk has more room than what is left of this one
                return fresh[:size].view(kind).reshape(shape)
            self._rest = fresh
        taken, self._rest = self._rest[:room], self._rest[room:]
        return taken[:size].view(kind).reshape(shape)


def _chunk(size: int) -> npt.NDArray[np.uint8]:
    memory = mmap.mmap(-1, size + _LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):  # a system without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % _LARGE
    return whole[start : start + size]


def pack(stored: Host, panels: Host) -> None:
    """Write a weight [outputs, inputs] of two or four bytes an element into panels [panels, inputs, PANEL]."""
    source = np.ascontiguousarray(stored)
    outputs, inputs = source.shape
    _check(panels, (-(-outputs // PANEL), inputs, PANEL), source.dtype)
    _call("tierwright_pack", [source, panels], outputs, inputs, source.itemsize)


def pack_whole(stored: Host, panels: Host, scales: Host) -> None:
    """Write a weight [outputs, inputs], f32, as int8 [panels, padded inputs / 2, PANEL, 2] and scales [panels, groups, PANEL]."""
    source = np.ascontiguousarray(stored, np.float32)
    outputs, inputs = source.shape
    count, groups = -(-outputs // PANEL), -(-inputs // GROUP)
    _check(panels, (count, groups * GROUP // 2, PANEL, 2), np.dtype(np.int8))
    _check(scales, (count, groups, PANEL), np.dtype(np.float32))
    _call("tierwright_pack_whole", [source, panels, scales], outputs, inputs)


def _check(target: Host, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """The kernels write without looking."""
    if target.shape != shape or target.dtype != dtype or not target.flags.c_contiguous:
        raise ValueError(f"panels of {target.dtype} {target.shape} cannot take a weight of {dtype} {shape}")


def _call(name: str, arrays: list[Host], *sizes: int) -> None:
    loaded = library()
    if loaded is None:
        raise RuntimeError("weights are packed by the kernels' library, and there is none")
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    getattr(loaded, name)(*pointers, *(ctypes.c_int64(size) for size in sizes))
