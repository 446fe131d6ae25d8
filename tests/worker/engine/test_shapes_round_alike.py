"""In f32 a row's logits are the same bits in every shape: rows of a step, slots, length bucket, chunks of the prompt."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.worker.support import Bench, bench, greedy, random_model, run, texts
from tierwright_worker import native
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.sequence import Request
from tierwright_worker.models.layout import Layout

COUNT = 9
SHAPES = [(1, 128), (3, 128), (5, 128), (9, 128), (1, 256), (9, 256)]


def logits(
    executor: Executor, slot: int, rows: int, length: int, *, chunks: tuple[int, ...] = (80,)
) -> npt.NDArray[np.float32]:
    """COUNT rows after a prompt of 80 tokens, `rows` at a time, in one slot; other slots hold noise."""
    random = np.random.default_rng(7)
    tokens = random.integers(0, executor.config.vocab_size, 80 + COUNT + rows).astype(np.int32)
    noise = random.integers(0, executor.config.vocab_size, 64)
    executor.clear()
    executor.set_length(length)
    for other in range(executor.shapes.slots):
        if other != slot:
            executor.prefill(other, 0, [int(token) for token in noise], 64)
    start = 0
    for size in chunks:
        bucket = next(bucket for bucket in executor.shapes.prefill_buckets if bucket >= size)
        executor.prefill(slot, start, [int(token) for token in tokens[start : start + size]], bucket)
        start += size
    parts = []
    for at in range(80, 80 + COUNT, rows):
        window = np.ones((executor.shapes.slots, rows), np.int32)
        window[slot] = tokens[at : at + rows]
        positions = np.full(executor.shapes.slots, length - rows, np.int32)
        positions[slot] = at
        parts.append(np.array(executor.step(window, positions).host_logits()[slot]))
    return np.concatenate(parts)[:COUNT]


PLAIN, KERNELS = Layout(), Layout(kernels=True)
CASES = [
    *((name, PLAIN, "float32", "float32") for name in ("llama", "qwen2", "llama_all_biases_no_groups")),
    *((name, KERNELS, "float32", "float32") for name in ("llama", "mistral", "llama_all_biases_no_groups")),
    ("qwen2", KERNELS, "bfloat16", "bfloat16"),
    ("llama", Layout(kernels=True, int8=True), "float32", "float32"),
    ("qwen3_tied", Layout(kernels=True, int8=True), "float32", "int8"),
]


@pytest.fixture(
    scope="module",
    params=CASES,
    ids=lambda case: (
        f"{case[0]}-{'kernels' if case[1].kernels else 'jax'}-{'int8' if case[1].int8 else case[2]}"
    ),
)
def machines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Bench]:
    """One model with one slot and with five; rows 1, 3, 5, 9."""
    name, layout, dtype, kv_dtype = request.param
    if layout.kernels and not native.usable():
        pytest.skip("the kernels are not built: python -m tierwright_worker.native.build")
    config, parameters = random_model(name, tmp_path_factory.mktemp("model"), dtype)
    return [
        bench(
            config,
            parameters,
            slots=slots,
            max_context=256,
            draft_tokens=8,
            lengths=(128, 256),
            dtype=dtype,
            kv_dtype=kv_dtype,
            layout=layout,
        )
        for slots in (1, 5)
    ]


def test_every_shape_gives_the_same_bits(machines: list[Bench]) -> None:
    alone, many = (machine.executor for machine in machines)
    expected = logits(alone, 0, 1, 256)
    for rows, length in SHAPES:
        if length == 256 or rows + 80 + COUNT <= length:
            assert np.array_equal(logits(alone, 0, rows, length, chunks=(40, 40)), expected), (rows, length)
            assert np.array_equal(logits(many, 3, rows, length, chunks=(64, 16)), expected), (rows, length)


def test_the_warm_up_proves_it(machines: list[Bench]) -> None:
    for machine in machines:
        assert machine.warmed.exact
        assert machine.warmed.step_rows == (1, 3, 5, 9)


def test_a_model_whose_shapes_disagree_is_served_with_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tierwright_worker.models import exact

    # Without its tiles and padding a product's roundings depend on the rows.
    monkeypatch.setattr("tierwright_worker.models.forward.linear", lambda x, w, b=None, **_: _plain(x, w, b))
    monkeypatch.setattr(exact, "COMPILER_OPTIONS", {})
    monkeypatch.setattr("tierwright_worker.engine.programs.COMPILER_OPTIONS", {})
    config, parameters = random_model("llama", tmp_path)
    machine = bench(config, parameters, slots=1, max_context=128, draft_tokens=8, layout=PLAIN)
    assert not machine.warmed.exact
    assert machine.warmed.step_rows == (9,)


def test_bfloat16_keeps_its_shapes_though_their_roundings_may_differ(tmp_path: Path) -> None:
    config, parameters = random_model("qwen2", tmp_path, "bfloat16")
    machine = bench(
        config, parameters, slots=1, max_context=128, draft_tokens=4, dtype="bfloat16", layout=PLAIN
    )
    assert machine.warmed.step_rows == (1, 3, 5)
    assert machine.executor.programs()[0].arguments[1].keys[0].dtype == "bfloat16"
    loop = tuple(range(3, 9)) * 8
    request = Request("a", loop, greedy(40))
    assert len(texts(run(machine.engine(draft_tokens=4), [request]))["a"]) == 40


def _plain(rows: object, weight: object, bias: object) -> object:
    import jax.numpy as jnp

    result = jnp.asarray(rows) @ jnp.asarray(weight)
    # A sum that is spelt differently for one row than for several, as a library may choose to.
    if result.shape[1] == 1:
        result = jnp.asarray(rows)[..., ::-1] @ jnp.asarray(weight)[::-1]
    return result if bias is None else result + jnp.asarray(bias)
