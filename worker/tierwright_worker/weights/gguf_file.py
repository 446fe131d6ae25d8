"""Reads a GGUF file: configuration, tokenizer data and dequantised tensors, under Hugging Face's names."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize

from tierwright_worker.errors import CorruptModelError, UnsupportedModelError
from tierwright_worker.models.config import SUPPORTED
from tierwright_worker.weights.gguf_header import check_header, unreadable
from tierwright_worker.weights.source import HostArray

_ARCHITECTURES = tuple(name for name in SUPPORTED if name != "mistral")  # GGUF calls Mistral "llama"
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_PERMUTED = re.compile(r"\.self_attn\.([qk])_proj\.(weight|bias)$")


class GgufFile:
    """One GGUF file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        """Read the metadata.

        Raises:
            CorruptModelError: no GGUF, cut short, or damaged.
            UnsupportedModelError: an architecture that is not built, or tensors of a kind that is not known.
        """
        self.path = path
        try:
            check_header(path)
            reader = GGUFReader(path)
            self._fields = {name: field.contents() for name, field in reader.fields.items()}
            self._tensors = {_hf_name(tensor.name): tensor for tensor in reader.tensors}
        except UnsupportedModelError:
            raise
        except Exception as error:  # the reader checks little, so that damage shows as almost any exception
            raise CorruptModelError(
                f"{path} is no readable GGUF file, or is cut short: {error}; fetch it again"
            ) from error
        self._rope_factors = self._tensors.pop("rope_freqs.weight", None)
        self.architecture = str(self._fields.get("general.architecture"))
        if self.architecture not in _ARCHITECTURES:
            raise UnsupportedModelError(
                f"{path}: architecture {self.architecture!r} is not supported; this worker serves {', '.join(SUPPORTED)}"
            )

    def metadata(self, key: str, default: Any = None) -> Any:
        """A value; `{arch}` in the key stands for the architecture."""
        return self._fields.get(key.replace("{arch}", self.architecture), default)

    def hf_config(self) -> dict[str, Any]:
        """The configuration under Hugging Face's keys."""
        take = self.metadata
        tied = "lm_head.weight" not in self._tensors
        epsilon = take("{arch}.attention.layer_norm_rms_epsilon")
        tokens = take("tokenizer.ggml.tokens")
        heads = take("{arch}.attention.head_count")
        config = {
            "model_type": self.architecture,
            "hidden_size": take("{arch}.embedding_length"),
            "intermediate_size": take("{arch}.feed_forward_length"),
            "num_hidden_layers": take("{arch}.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": take("{arch}.attention.head_count_kv", heads),
            "head_dim": take("{arch}.attention.key_length", take("{arch}.rope.dimension_count")),
            "vocab_size": take("{arch}.vocab_size", len(tokens) if isinstance(tokens, list) else None),
            "max_position_embeddings": take("{arch}.context_length"),
            # The file holds it in f32; the model was trained with the short decimal that it rounds.
            "rms_norm_eps": float(f"{epsilon:.6g}") if isinstance(epsilon, float) else epsilon,
            "rope_theta": take("{arch}.rope.freq_base", 10000.0),
            "tie_word_embeddings": tied,
            "attention_bias": "model.layers.0.self_attn.q_proj.bias" in self._tensors,
            "bos_token_id": take("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self._end_tokens(),
        }
        rope = self._rope()
        return {**config, "rope_parameters": rope} if rope else config

    def _end_tokens(self) -> list[int]:
        keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
        return list(dict.fromkeys(value for key in keys if (value := self.metadata(key)) is not None))

    def _rope(self) -> dict[str, Any]:
        if self._rope_factors is not None:
            return {"rope_type": "factors", "factors": _dequantised(self._rope_factors, self.path).tolist()}
        kind = self.metadata("{arch}.rope.scaling.type", "none")
        if kind == "none":
            return {}
        return {"rope_type": kind, "factor": self.metadata("{arch}.rope.scaling.factor")}

    def names(self) -> frozenset[str]:
        """All tensor names."""
        return frozenset(self._tensors)

    def read(self, name: str) -> HostArray:
        """One tensor in f32."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise CorruptModelError(
                f"{self.path} holds no tensor {name!r}; fetch it again, or convert the model anew"
            )
        values = _dequantised(tensor, self.path)
        permuted = _PERMUTED.search(name) if self.architecture == "llama" else None
        if permuted is None:
            return values
        key = "{arch}.attention.head_count" + ("" if permuted[1] == "q" else "_kv")
        heads = self.metadata(key, self.metadata("{arch}.attention.head_count"))
        if not isinstance(heads, int) or heads < 1 or values.shape[0] % (2 * heads):
            raise CorruptModelError(
                f"{self.path}: tensor {name!r} of {values.shape[0]} rows has no {heads} heads"
            )
        # llama.cpp interleaves the halves that are rotated together; undo it per head.
        pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))

    def where(self) -> str:
        """The file."""
        return str(self.path)


def _hf_name(name: str) -> str:
    if match := _LAYER_NAME.fullmatch(name):
        index, part, kind = match.groups()
        return f"model.layers.{index}.{_LAYER.get(part, part)}.{kind}"
    stem, _, kind = name.rpartition(".")
    return f"{_TOP.get(stem, stem)}.{kind}"


def _dequantised(tensor: Any, path: Path) -> HostArray:
    try:
        values: HostArray = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        return values.reshape([int(size) for size in reversed(tensor.shape)])
    except NotImplementedError as error:
        raise unreadable(path, tensor.name, tensor.tensor_type.name) from error
    except (ValueError, IndexError, TypeError) as error:
        raise CorruptModelError(
            f"{path}: tensor {tensor.name!r} is damaged: {error}; fetch it again"
        ) from error
