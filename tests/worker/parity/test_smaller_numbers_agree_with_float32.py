"""How often SmolLM2's most probable token, after transformers' own f32 text, stays the same in smaller numbers: stated bounds."""

import gzip
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tierwright_worker.loading.model import open_model
from tierwright_worker.models import forward
from tierwright_worker.models.layout import arranged, choose_layout
from tierwright_worker.models.slot_cache import empty_cache

pytestmark = pytest.mark.model
RECORD = Path(__file__).parent / "records" / "smollm2.json.gz"
LENGTH = 128

# Least share of equal tokens by (dtype of weights, of keys and values); measured values stand in worker/README.md.
BOUNDS = {
    ("float32", "float32"): 1.0,
    ("bfloat16", "bfloat16"): 0.99,
    ("int8", "float32"): 0.97,
    ("float32", "int8"): 0.97,
    ("int8", "int8"): 0.96,
}


def agreement(gguf: Path, cache: Path, dtype: str, kv_dtype: str) -> float:
    """The share of all recorded greedy tokens that are the most probable ones here, each after the recorded ones."""
    layout = choose_layout(int8=dtype == "int8")
    model = open_model(gguf, cache=cache, dtype="float32" if dtype == "int8" else dtype)
    parameters = arranged(model.parameters, layout)
    step = jax.jit(forward.step, static_argnums=0)
    empty = empty_cache(model.config, 1, LENGTH, kv_dtype, stacked=layout.kernels)
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        records = json.load(file)["prompts"]
    equal = total = 0
    for record in records:
        known = [*record["ids"], *record["greedy"][:-1]]
        tokens = np.zeros((1, LENGTH), np.int32)
        tokens[0, : len(known)] = known
        best, _, _ = step(model.config, parameters, empty, tokens, np.zeros(1, np.int32))
        found = np.asarray(best)[0, len(record["ids"]) - 1 : len(known)]
        equal += int(np.sum(found == record["greedy"]))
        total += len(record["greedy"])
    return equal / total


@pytest.mark.parametrize(("dtype", "kv_dtype"), BOUNDS)
def test_tokens_agree(smollm2_gguf: Path, kept_folder: Path, dtype: str, kv_dtype: str) -> None:
    found = agreement(smollm2_gguf, kept_folder, dtype, kv_dtype)
    assert found >= BOUNDS[dtype, kv_dtype], f"{found:.4f}"
