"""Each kernel gives numpy's result within rounding, on every instruction set of this machine, for awkward sizes too."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from tierwright_worker import native
from tierwright_worker.models.exact import linear
from tierwright_worker.models.layout import Layout, OneOfPanels, columns, weight

pytestmark = pytest.mark.skipif(not native.usable(), reason="python -m tierwright_worker.native.build")
Floats = npt.NDArray[np.float32]


@pytest.fixture(params=["avx512", "avx2", "generic"])
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    """An instruction set that this machine has; the best one again afterwards."""
    best = native.instructions()
    if not native.use_instructions(request.param):
        pytest.skip(f"this machine has no {request.param}")
    yield request.param
    assert native.use_instructions(best)


def draw(seed: int, *shape: int) -> Floats:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 96), (33, 31), (576, 130), (1, 1)])
@pytest.mark.parametrize("rows", [1, 3, 9, 17, 70])
def test_products(instructions: str, rows: int, inputs: int, outputs: int) -> None:
    x, plain = draw(1, rows, inputs), draw(2, inputs, outputs)
    for dtype in ("float32", "bfloat16"):
        stored = jnp.asarray(plain).astype(dtype)
        expected = x @ np.asarray(stored.astype(jnp.float32))
        found = np.asarray(linear(jnp.asarray(x), weight(stored, Layout(kernels=True))))
        assert np.max(np.abs(found - expected)) < 1e-5 * inputs**0.5 * 4


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 96), (48, 31), (576, 130)])
@pytest.mark.parametrize("rows", [1, 6, 21])
def test_whole_number_products(instructions: str, rows: int, inputs: int, outputs: int) -> None:
    x, plain = draw(3, rows, inputs), draw(4, inputs, outputs)
    x[0, 5] = 2000.0  # an outlier costs its own group of inputs alone
    whole = weight(jnp.asarray(plain), Layout(int8=True))
    groups, size, _ = whole.values.shape
    padded = np.asarray(whole.values, np.float32) * np.asarray(whole.scales)[:, None]
    restored = padded.reshape(groups * size, outputs)[:inputs]
    assert np.max(np.abs(restored - plain)) < np.max(np.abs(plain)) / 250
    expected = x @ restored
    bound = np.abs(x).max(axis=1, keepdims=True) * 3e-4 + 1e-3
    for layout in (Layout(int8=True), Layout(int8=True, kernels=True)):
        found = np.asarray(linear(jnp.asarray(x), weight(jnp.asarray(plain), layout)))
        assert np.all(np.abs(found - expected) < bound), layout


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_program_takes_one_layer_of_several_by_its_number(instructions: str, dtype: str) -> None:
    layout = Layout(kernels=True, int8=dtype == "int8")
    read = "float32" if layout.int8 else dtype
    alone = [weight(jnp.asarray(draw(20 + at, 48, 70)).astype(read), layout) for at in range(3)]
    every = jax.tree_util.tree_map(lambda *own: jnp.stack(own), *alone)
    x = jnp.asarray(draw(30, 5, 48))
    run = jax.jit(lambda rows, panels, number: linear(rows, OneOfPanels(panels, number)))
    for number, own in enumerate(alone):
        assert np.array_equal(run(x, every, jnp.int32(number)), linear(x, own))
    # As XLA does with what is out of range.
    assert np.array_equal(run(x, every, jnp.int32(7)), linear(x, alone[2]))
    assert np.array_equal(run(x, every, jnp.int32(-7)), linear(x, alone[0]))


@pytest.mark.parametrize("layout", [Layout(), Layout(True), Layout(int8=True), Layout(True, True)])
def test_columns_are_the_embeddings_of_a_tied_model(layout: Layout) -> None:
    plain = draw(5, 48, 70)
    ids = jnp.asarray([0, 31, 32, 69, 7], jnp.int32)
    found = np.asarray(columns(weight(jnp.asarray(plain), layout), ids))
    bound = np.abs(plain).max() / 250 if layout.int8 else 0.0
    assert np.max(np.abs(found - plain[:, np.asarray(ids)].T)) <= bound


def attended(query: Floats, keys: Floats, values: Floats, position: int) -> Floats:
    """Attention of one sequence's rows [rows, heads, head_dim] over [kv_heads, length, head_dim], in f64."""
    rows, heads, size = query.shape
    group = heads // keys.shape[0]
    out = np.zeros_like(query)
    for row in range(rows):
        for head in range(heads):
            seen = position + row + 1
            scores = keys[head // group, :seen].astype(np.float64) @ query[row, head] / size**0.5
            weights = np.exp(scores - scores.max())
            out[row, head] = weights @ values[head // group, :seen] / weights.sum()
    return out


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 64), (4, 4, 24), (2, 1, 128)])
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2e-6), ("bfloat16", 0.02), ("int8", 0.03)])
def test_attention(instructions: str, heads: int, kv_heads: int, size: int, dtype: str, bound: float) -> None:
    """A prompt of 130 positions in chunks, then steps of rows, in two of three slots, in no particular order.

    The caches hold two layers, of which the second is used and the first stays as it was.
    """
    length, total, slots, at = 192, 150, [2, 0], 0
    shape = (2, 3, kv_heads, length, size)
    caches = [jnp.ones(shape, dtype), jnp.ones(shape, dtype)]
    if dtype == "int8":
        caches += [jnp.ones(shape[:4]), jnp.ones(shape[:4])]
    query, key, value = draw(6, 2, total, heads, size), *draw(7, 2, 2, total, kv_heads, size)
    run = jax.jit(native.attention)
    found = []
    for rows in (100, 30, 1, 9, 10):
        part = slice(at, at + rows)
        mixed, caches = run(
            *(jnp.asarray(array[:, part]) for array in (query, key, value)),
            jnp.asarray(slots, jnp.int32),
            jnp.full((2,), at, jnp.int32),
            tuple(caches),
            jnp.int32(1),
        )
        found.append(np.asarray(mixed))
        at += rows
    everything = np.concatenate(found, axis=1)
    for sequence in range(2):
        expected = attended(query[sequence], key[sequence].swapaxes(0, 1), value[sequence].swapaxes(0, 1), 0)
        assert np.max(np.abs(everything[sequence] - expected)) < bound
    assert all(np.all(np.asarray(array[0]) == 1) for array in caches)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, plain = draw(8, 40, 200), draw(9, 200, 999)
    stored = weight(jnp.asarray(plain), Layout(kernels=True))
    results = []
    for threads in (1, 2, 5):
        native.use_threads(threads)
        results.append(np.asarray(linear(jnp.asarray(x), stored)))
    native.use_threads(native.processors())
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
