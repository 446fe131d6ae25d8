"""Reads how rotary embeddings are stretched for long contexts, from Hugging Face's keys, older and newer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierwright_worker.errors import CorruptModelError, UnsupportedModelError
from tierwright_worker.models.json_values import Reader


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched for long contexts; `kind` default, linear, llama3, yarn or factors."""

    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    beta_fast: float = 32.0  # yarn: frequencies that turn more often within the original context are kept
    beta_slow: float = 1.0  # yarn: those that turn less often are stretched by the whole factor
    attention: float = 1.0  # yarn: by what cosine and sine are multiplied
    factors: tuple[float, ...] = ()  # a divisor per frequency, as GGUF files carry them


def read_rope(raw: Mapping[str, Any], head_dim: int, where: str) -> tuple[float, RopeScaling]:
    """Base and scaling, from `rope_parameters` (newer files) or `rope_theta` and `rope_scaling` (older ones)."""
    parameters = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(parameters, Mapping):
        raise CorruptModelError(f"{where}: rope parameters are no object")
    read = Reader(parameters, f"{where}: rope")
    theta = Reader({**raw, **parameters}, where).number("rope_theta", 10000.0)
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return theta, RopeScaling()
    if kind == "linear":
        return theta, RopeScaling(kind=kind, factor=read.number("factor"))
    if kind == "llama3":
        scaling = RopeScaling(
            kind=kind,
            factor=read.number("factor"),
            low_freq_factor=read.number("low_freq_factor"),
            high_freq_factor=read.number("high_freq_factor"),
            original_max_position=read.size("original_max_position_embeddings"),
        )
        if scaling.high_freq_factor <= scaling.low_freq_factor:
            raise CorruptModelError(f"{where}: rope: high_freq_factor is not above low_freq_factor")
        return theta, scaling
    if kind == "yarn":
        return theta, _yarn(read)
    if kind == "factors":
        values = parameters.get("factors")
        if not isinstance(values, list) or len(values) != head_dim // 2:
            raise CorruptModelError(f"{where}: rope: factors must be {head_dim // 2} numbers")
        factors = tuple(Reader({"factors": value}, f"{where}: rope").number("factors") for value in values)
        return theta, RopeScaling(kind=kind, factors=factors)
    raise UnsupportedModelError(
        f"{where}: rope scaling {kind!r} is not supported; default, linear, llama3 and yarn are"
    )


def _yarn(read: Reader) -> RopeScaling:
    """YaRN (Peng et al. 2023); the attention factor is 0.1 ln(factor) + 1 unless the file says otherwise."""
    factor = read.number("factor")

    def stretched(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if read.raw.get("mscale") and read.raw.get("mscale_all_dim"):
        implied = stretched(read.number("mscale")) / stretched(read.number("mscale_all_dim"))
    else:
        implied = stretched(1.0)
    if not read.flag("truncate", True):
        raise UnsupportedModelError(f"{read.where}: yarn with truncate false is not supported")
    scaling = RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_position=read.size("original_max_position_embeddings"),
        beta_fast=read.number("beta_fast", 32.0),
        beta_slow=read.number("beta_slow", 1.0),
        attention=read.number("attention_factor", implied),
    )
    if scaling.beta_fast <= scaling.beta_slow:
        raise CorruptModelError(f"{read.where}: beta_fast is not above beta_slow")
    return scaling
