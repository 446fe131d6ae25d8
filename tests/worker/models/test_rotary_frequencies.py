"""Rotary frequencies of stretched contexts are transformers' own, and damaged descriptions are refused."""

import numpy as np
import pytest

from dev.worker.models import RANDOM_MODELS
from tierwright_worker.errors import CorruptModelError, WorkerError
from tierwright_worker.models.config import ModelConfig, config_from_hf
from tierwright_worker.models.rope import inverse_frequencies

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1e6}
# From transformers 5.24: ROPE_INIT_FUNCTIONS["yarn"] for heads of 64 elements.
YARN_PAIRS = {0: 1.0, 8: 0.03162277862429619, 12: 0.005154795479029417, 15: 0.001026617712341249,
              19: 9.128064994001761e-05, 31: 3.8498163235090033e-07}  # fmt: skip
YARN_ATTENTION = 1.138629436111989


def yarn(**changes: object) -> ModelConfig:
    """A configuration with YaRN and heads of 64 elements."""
    raw = {**RANDOM_MODELS["qwen2"], "head_dim": 64, "max_position_embeddings": 32768}
    return config_from_hf({**raw, "rope_scaling": {**YARN, **changes}}, where="yarn")


def test_yarn_is_that_of_transformers() -> None:
    found = inverse_frequencies(yarn())
    for pair, expected in YARN_PAIRS.items():
        assert found[pair] == pytest.approx(expected, rel=1e-6)
    assert yarn().rope_scaling.attention == pytest.approx(YARN_ATTENTION, rel=1e-12)


def test_yarn_stretches_the_context() -> None:
    assert yarn().max_position == 131072


def test_yarn_takes_its_attention_factor_from_the_file() -> None:
    assert yarn(attention_factor=1.5).rope_scaling.attention == 1.5
    assert yarn(mscale=0.707, mscale_all_dim=0.707).rope_scaling.attention == 1.0
    assert yarn(factor=1.0).rope_scaling.attention == 1.0


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"factor": None}, CorruptModelError),
        ({"original_max_position_embeddings": None}, CorruptModelError),
        ({"beta_fast": 1.0, "beta_slow": 2.0}, CorruptModelError),
        ({"truncate": False}, WorkerError),
    ],
)
def test_yarn_that_cannot_be_is_refused(changes: dict[str, object], kind: type[WorkerError]) -> None:
    with pytest.raises(kind):
        yarn(**changes)


def test_llama3_keeps_short_wavelengths_and_stretches_long_ones() -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    raw = {**RANDOM_MODELS["llama"], "head_dim": 128, "rope_theta": 5e5}
    plain = inverse_frequencies(config_from_hf(raw, where="plain"))
    found = inverse_frequencies(config_from_hf({**raw, "rope_scaling": scaling}, where="llama3"))
    wavelengths = 2 * np.pi / plain
    short, long = wavelengths < 8192 / 4, wavelengths > 8192
    assert short.any()
    assert long.any()
    assert np.array_equal(found[short], plain[short])
    assert np.allclose(found[long], plain[long] / 8)
    between = ~short & ~long
    assert np.all((found[between] < plain[between]) & (found[between] > plain[between] / 8))
