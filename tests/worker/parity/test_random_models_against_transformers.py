"""Small random models of every variant give transformers' logits and its greedy tokens."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from dev.worker.models import RANDOM_MODELS, random_tokens
from tests.worker.support import bench, greedy, random_model, run, texts
from tierwright_worker.engine.sequence import Request
from tierwright_worker.models import forward
from tierwright_worker.models.slot_cache import empty_cache

RECORD = Path(__file__).parent / "records" / "random.json.gz"
EVERY = 5
# The largest difference of any logit: in f32 absolute, in bf16 as a share of the logits' standard deviation.
BOUND_FLOAT32 = 1e-4
BOUND_BFLOAT16 = 0.08
# Two greedy choices may swap where the best two logits lie closer than the bound allows both to move.
SAFE_MARGIN = 2 * BOUND_FLOAT32


@cache
def record() -> dict[str, Any]:
    """What transformers computed; see dev/worker/reference.py."""
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        models: dict[str, Any] = json.load(file)["models"]
    return models


def logits(name: str, folder: Path, dtype: str) -> npt.NDArray[np.float32]:
    """All rows of one step over the whole sequence."""
    config, parameters = random_model(name, folder, dtype)
    tokens = np.asarray([random_tokens(name)], np.int32)
    cache_dtype = jnp.bfloat16 if dtype == "bfloat16" else jnp.float32
    empty = empty_cache(config, 1, 128, cache_dtype)
    step = jax.jit(forward.step, static_argnums=0)
    _, result, _ = step(config, parameters, empty, tokens, np.zeros(1, np.int32))
    values: npt.NDArray[np.float32] = np.asarray(result)[0]
    return values


@pytest.mark.parametrize("name", RANDOM_MODELS)
def test_logits_in_float32(name: str, tmp_path: Path) -> None:
    expected = np.asarray(record()[name]["logits"])
    assert np.ptp(expected) > 3
    assert np.max(np.abs(logits(name, tmp_path, "float32")[::EVERY] - expected)) < BOUND_FLOAT32


@pytest.mark.parametrize("name", RANDOM_MODELS)
def test_logits_in_bfloat16_are_as_near_to_float32_as_those_of_transformers(
    name: str, tmp_path: Path
) -> None:
    exact = np.asarray(record()[name]["logits"])
    theirs = np.abs(np.asarray(record()[name]["logits_bfloat16"]) - exact)
    ours = np.abs(logits(name, tmp_path, "bfloat16")[::EVERY] - exact)
    assert np.max(ours) / np.std(exact) < BOUND_BFLOAT16
    assert np.mean(ours) <= np.mean(theirs) * 1.1


@pytest.mark.parametrize("name", RANDOM_MODELS)
def test_greedy_tokens_through_the_engine(name: str, tmp_path: Path) -> None:
    config, parameters = random_model(name, tmp_path)
    machine = bench(config, parameters, slots=1, max_context=128, draft_tokens=2)
    expected, margins = record()[name]["greedy"], record()[name]["margins"]
    safe = next((at for at, margin in enumerate(margins) if margin < SAFE_MARGIN), len(margins))
    assert safe >= 8
    request = Request("a", tuple(random_tokens(name)), greedy(safe))
    assert texts(run(machine.engine(draft_tokens=2), [request]))["a"] == expected[:safe]
