"""What the parity tests compute with: small models of random weights, one per variant, and the prompts of SmolLM2."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = dict[str, npt.NDArray[np.float32]]
_BASE: dict[str, Any] = {
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
RANDOM_MODELS: Mapping[str, dict[str, Any]] = {
    "llama": {**_BASE, "model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "llama3_tied_one_kv_head": {
        **_BASE,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_scaling": _LLAMA3,
        "rope_theta": 500000.0,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "tie_word_embeddings": True,
    },
    "llama_all_biases_no_groups": {
        **_BASE,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": 4,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    # Llama 2: no grouped heads, no scaling, an end token of its own. TinyLlama: the same, grouped.
    "llama2": {
        **_BASE,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": 4,
        "attention_bias": False,
        "pretraining_tp": 1,
        "rope_scaling": None,
    },
    "tinyllama": {
        **_BASE,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "intermediate_size": 176,
        "attention_bias": False,
        "pretraining_tp": 1,
        "rope_scaling": None,
    },
    "mistral": {
        **_BASE,
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": None,
        "head_dim": 24,
    },
    "qwen2": {**_BASE, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "qwen25_tied": {
        **_BASE,
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "sliding_window": 32768,
        "max_window_layers": 2,
    },
    "qwen3_tied": {
        **_BASE,
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "head_dim": 32,
        "tie_word_embeddings": True,
    },
}


def random_tensors(name: str) -> Tensors:
    """All weights of a model under Hugging Face's names: normal, scaled so that the logits spread over a few units."""
    config = RANDOM_MODELS[name]
    hidden, ffn, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    random = np.random.default_rng(sum(name.encode()))

    def draw(*shape: int, scale: float = 1.0, centre: float = 0.0) -> npt.NDArray[np.float32]:
        return (centre + scale * random.standard_normal(shape)).astype(np.float32)

    tensors = {"model.embed_tokens.weight": draw(vocabulary, hidden)}
    for index in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{index}."
        products = {
            "self_attn.q_proj": (q, hidden),
            "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden),
            "self_attn.o_proj": (hidden, q),
            "mlp.gate_proj": (ffn, hidden),
            "mlp.up_proj": (ffn, hidden),
            "mlp.down_proj": (hidden, ffn),
        }
        for part, (outputs, inputs) in products.items():
            tensors[f"{prefix}{part}.weight"] = draw(outputs, inputs, scale=1.5 / inputs**0.5)
            if _has_bias(config, part):
                tensors[f"{prefix}{part}.bias"] = draw(outputs, scale=0.5)
        norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
        if config["model_type"] == "qwen3":
            norms |= {"self_attn.q_norm": head_dim, "self_attn.k_norm": head_dim}
        for part, size in norms.items():
            tensors[f"{prefix}{part}.weight"] = draw(size, scale=0.2, centre=1.0)
    tensors["model.norm.weight"] = draw(hidden, scale=0.2, centre=1.0)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw(vocabulary, hidden, scale=1.5 / hidden**0.5)
    return tensors


def _has_bias(config: dict[str, Any], part: str) -> bool:
    if part.startswith("mlp"):
        return bool(config.get("mlp_bias"))
    if config["model_type"] == "qwen2":
        return not part.endswith("o_proj")
    return bool(config.get("attention_bias"))


def random_tokens(name: str, count: int = 40) -> list[int]:
    """A sequence to run the model on."""
    random = np.random.default_rng(1 + sum(name.encode()))
    return [int(token) for token in random.integers(3, RANDOM_MODELS[name]["vocab_size"], count)]


def write_random_model(name: str, folder: Path, save: Callable[[Tensors, str], None]) -> None:
    """Write config.json and model.safetensors; `save` is safetensors' own function."""
    (folder / "config.json").write_text(json.dumps(RANDOM_MODELS[name]), encoding="utf-8")
    save(random_tensors(name), str(folder / "model.safetensors"))


PROMPTS = (
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Name three primary colours.",
    "Explain in one sentence why the sky is blue.",
    "Translate 'good morning' into Spanish.",
    "List the planets of the solar system in order.",
    "Write a haiku about rain.",
    "What is 17 + 25?",
    "Rename the variable x to total:\n\nx = 0\nfor n in numbers:\n    x = x + n\nprint(x)",
    "Add a docstring to this function:\n\ndef area(width, height):\n    return width * height",
    "Repeat this sentence exactly: The quick brown fox jumps over the lazy dog.",
    "Turn this list into JSON: apples, pears, plums.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "What does HTTP stand for?",
    "Fix the bug:\n\ndef last(items):\n    return items[len(items)]",
    "Summarise: Kubernetes runs containers on many machines and restarts those that fail.",
    "Write a SQL query that counts the rows of the table orders.",
    "What is the difference between a list and a tuple in Python?",
    "Say hello in five languages.",
    "How many days does a leap year have?",
    "Write a short e-mail that declines a meeting.",
)
