"""Reads a model's configuration: the sizes and variants of a Llama-class decoder, from a Hugging Face `config.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierwright_worker.errors import CorruptModelError, ModelNotFoundError, UnsupportedModelError
from tierwright_worker.models.json_values import Reader
from tierwright_worker.models.rope_scaling import RopeScaling, read_rope

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A Llama-class decoder. Sizes in elements; `max_position` in tokens."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_position: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    tied_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads

    @property
    def q_size(self) -> int:
        """Rows of the query projection."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Rows of the key projection, and of the value projection."""
        return self.kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """Number of parameters, biases and norms included."""
        attention = (self.q_size + 2 * self.kv_size) * self.hidden_size + self.q_size * self.hidden_size
        layer = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        layer += (self.q_size + 2 * self.kv_size) * self.qkv_bias + self.hidden_size * self.output_bias
        layer += 2 * self.head_dim * self.qk_norm
        layer += (2 * self.intermediate_size + self.hidden_size) * self.mlp_bias
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings + self.hidden_size


def read_config(folder: Path) -> ModelConfig:
    """The configuration of a Hugging Face folder; `generation_config.json` wins where it names the end tokens.

    Raises:
        ModelNotFoundError: no `config.json`.
        CorruptModelError: it is no JSON object, or a value is missing, of a wrong type or out of range.
        UnsupportedModelError: an architecture, activation or rope scaling that is not built.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ModelNotFoundError(f"{folder} holds no config.json; give a Hugging Face folder or a .gguf file")
    config = read_json_object(path)
    generation = folder / "generation_config.json"
    if generation.is_file():
        overrides = read_json_object(generation)
        if overrides.get("eos_token_id") is not None:
            config = {**config, "eos_token_id": overrides["eos_token_id"]}
    return config_from_hf(config, where=str(path))


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        CorruptModelError: the file is not readable as UTF-8 JSON, or holds something else than an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptModelError(f"{path} is not readable as JSON: {error}; fetch it again") from error
    if not isinstance(value, dict):
        raise CorruptModelError(f"{path} holds {type(value).__name__}, not a JSON object")
    return value


def config_from_hf(raw: Mapping[str, Any], *, where: str) -> ModelConfig:
    """The configuration out of Hugging Face's keys. Raises as `read_config` does; `where` is named in messages."""
    read = Reader(raw, where)
    model_type = read.text("model_type")
    if model_type not in SUPPORTED:
        raise UnsupportedModelError(
            f"{where}: model_type {model_type!r} is not supported; this worker serves {', '.join(SUPPORTED)}"
        )
    activation = raw.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise UnsupportedModelError(f"{where}: hidden_act {activation!r} is not supported; only silu is")
    hidden, heads = read.size("hidden_size"), read.size("num_attention_heads")
    kv_heads = read.size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise CorruptModelError(f"{where}: {heads} heads cannot share {kv_heads} key-value heads evenly")
    if raw.get("head_dim") is None and hidden % heads:
        raise CorruptModelError(
            f"{where}: no head_dim, and hidden_size {hidden} is no multiple of {heads} heads"
        )
    head_dim = read.size("head_dim", hidden // heads)
    if head_dim % 2:
        raise CorruptModelError(f"{where}: head_dim {head_dim} is odd; rotary embeddings need pairs")
    theta, scaling = read_rope(raw, head_dim, where)
    attention_bias = read.flag("attention_bias", False)
    return ModelConfig(
        model_type=model_type,
        vocab_size=read.size("vocab_size"),
        hidden_size=hidden,
        intermediate_size=read.size("intermediate_size"),
        layers=read.size("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        max_position=_max_position(read, scaling),
        norm_eps=read.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        tied_embeddings=read.flag("tie_word_embeddings", False),
        qkv_bias=model_type == "qwen2" or attention_bias,
        output_bias=model_type != "qwen2" and attention_bias,
        mlp_bias=read.flag("mlp_bias", False),
        qk_norm=model_type == "qwen3",
        bos_token_id=read.token("bos_token_id"),
        eos_token_ids=read.tokens("eos_token_id"),
    )


def _max_position(read: Reader, scaling: RopeScaling) -> int:
    """The longest context; a sliding window cuts it, since within the window all attention is full attention.

    Files with YaRN name the original context or the stretched one, so the longer of the two counts.
    """
    longest = read.size("max_position_embeddings", 2048)
    if scaling.kind == "yarn":
        longest = max(longest, int(scaling.original_max_position * scaling.factor))
    window = read.raw.get("sliding_window")
    slides = read.raw.get("use_sliding_window", read.raw.get("model_type") == "mistral")
    if window is not None and slides:
        return min(longest, read.size("sliding_window"))
    return longest
