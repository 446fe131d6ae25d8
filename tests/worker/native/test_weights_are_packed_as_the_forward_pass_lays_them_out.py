"""Packing from the file's own orientation gives what arranging by JAX gives, in memory that JAX takes without a copy."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tierwright_worker import native
from tierwright_worker.models.layout import Layout, Panels, empty_panels, fill, from_stored, weight
from tierwright_worker.native.packing import Pages, pack

pytestmark = pytest.mark.skipif(not native.usable(), reason="python -m tierwright_worker.native.build")
SIZES = [(64, 96), (31, 33), (130, 576), (1, 1), (1000, 40)]


def stored(outputs: int, inputs: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """A weight as files hold it; one of its groups is nothing but zeros."""
    values = np.random.default_rng(outputs).standard_normal((outputs, inputs)).astype(np.float32)
    values[0, :32] = 0
    return values.astype(dtype)


@pytest.mark.parametrize(("outputs", "inputs"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_panels_of_floats(outputs: int, inputs: int, dtype: npt.DTypeLike) -> None:
    raw = stored(outputs, inputs, dtype)
    for layout in (Layout(kernels=True), Layout()):
        expected = weight(jnp.asarray(raw.T), layout)
        found = from_stored(raw, layout, Pages())
        assert type(found) is type(expected) or layout == Layout()
        for mine, theirs in zip(*map(jax.tree_util.tree_leaves, (found, expected)), strict=True):
            assert mine.dtype == theirs.dtype
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize(("outputs", "inputs"), SIZES)
@pytest.mark.parametrize("kernels", [True, False])
def test_whole_numbers_with_scales(outputs: int, inputs: int, kernels: bool) -> None:
    raw, layout = stored(outputs, inputs), Layout(kernels=kernels, int8=True)
    found, expected = from_stored(raw, layout, Pages()), weight(jnp.asarray(raw.T), layout)
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.scales, expected.scales)
    assert found.shape == expected.shape == (inputs, outputs)


def test_layers_lie_one_after_the_other_and_do_not_touch_each_other() -> None:
    raw = [stored(70, 48) + at for at in range(3)]
    for layout in (Layout(kernels=True), Layout(kernels=True, int8=True)):
        every = empty_panels(raw[0], layout, Pages(), (3,))
        for at in (2, 0, 1):
            fill(every, raw[at], (at,))
        for at in range(3):
            alone = from_stored(raw[at], layout, Pages())
            assert np.array_equal(every.values[at], alone.values)
            if layout.int8:
                assert every.scales is not None
                assert np.array_equal(every.scales[at], alone.scales)


def test_room_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot take a weight of float32"):
        pack(stored(70, 48), np.zeros((2, 48, 32), np.float32))


def test_jax_uses_the_memory_itself() -> None:
    memory = Pages()
    for size in (3, 5000, 30 << 20):
        array = memory.take((size,), np.float32)
        assert not array.any()
        array[:] = 1
        assert jax.device_put(array).unsafe_buffer_pointer() == array.ctypes.data
    panels = from_stored(stored(130, 576), Layout(kernels=True), memory)
    assert isinstance(panels, Panels)
    assert jax.device_put(panels.values).unsafe_buffer_pointer() == panels.values.ctypes.data


def test_arrays_of_one_memory_share_no_byte() -> None:
    memory = Pages()
    arrays = [memory.take((size,), np.uint8) for size in (1, 63, 64, 65, 40 << 20, 40 << 20, 70 << 20, 7)]
    spans = sorted((array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(start % 64 == 0 for start, _ in spans)
