"""Writes the small random models as GGUF files, as llama.cpp would."""

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize

from dev.worker.models import RANDOM_MODELS, random_tensors

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """A tensor's name in GGUF."""
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{_NAMES[stem]}.{kind}"
    _, _, index, part = stem.split(".", 3)
    return f"blk.{index}.{_NAMES[part]}.{kind}"


def interleave(weight: Any, heads: int) -> Any:
    """What llama.cpp does to the rows of queries and keys."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


def write_gguf(
    name: str, path: Path, kind: GGMLQuantizationType | None = None, architecture: str | None = None
) -> None:
    """One of the random models as a GGUF file; its products in `kind`."""
    config = RANDOM_MODELS[name]
    arch = architecture or {"mistral": "llama"}.get(config["model_type"], config["model_type"])
    writer = GGUFWriter(path, arch)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    letters = [chr(code) for code in range(33, 33 + config["vocab_size"] - 3 - 10)]
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *letters[:80],
        *(f"{a}{b}" for a, b in zip(letters[:5], letters[5:10], strict=True)),
    ]
    tokens += [f"<spare{at}>" for at in range(config["vocab_size"] - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<") and len(token) > 1 else 1 for token in tokens])
    writer.add_token_merges([f"{a} {b}" for a, b in zip(letters[:5], letters[5:10], strict=True)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for tensor, values in random_tensors(name).items():
        data: Any = values
        if arch == "llama" and ".q_proj" in tensor:
            data = interleave(values, config["num_attention_heads"])
        if arch == "llama" and ".k_proj" in tensor:
            data = interleave(values, config["num_key_value_heads"])
        if kind is not None and values.ndim == 2:
            writer.add_tensor(gguf_name(tensor), quantize(np.ascontiguousarray(data), kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(tensor), np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
