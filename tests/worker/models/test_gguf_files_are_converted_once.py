"""GGUF files give the same model as the folder they were made from, are converted once, and are refused when damaged."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quantize

from dev.worker.models import RANDOM_MODELS, random_tensors
from tests.worker.support import random_model
from tierwright_worker.errors import (
    CacheVolumeError,
    CorruptModelError,
    ModelNotFoundError,
    UnsupportedModelError,
    WorkerError,
)
from tierwright_worker.loading.converted import converted_folder
from tierwright_worker.loading.model import hugging_face_folder, open_model

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


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "qwen3_tied"])
def test_a_gguf_file_gives_the_same_model_as_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    config, parameters = random_model(name, folder)
    write_gguf(name, tmp_path / "it.gguf")
    model = open_model(tmp_path / "it.gguf", cache=tmp_path / "cache", dtype="float32")
    assert model.config.model_type == {"mistral": "llama"}.get(config.model_type, config.model_type)
    for attribute in ("layers", "heads", "kv_heads", "head_dim", "norm_eps", "rope_theta", "tied_embeddings"):
        assert getattr(model.config, attribute) == getattr(config, attribute)
    for ours, theirs in zip(model.parameters.layers, parameters.layers, strict=True):
        for attribute in ("qkv", "qkv_bias", "q_norm", "k_norm", "output", "gate_up", "down", "mlp_norm"):
            left, right = getattr(ours, attribute), getattr(theirs, attribute)
            assert (left is None and right is None) or np.array_equal(left, right), attribute
    assert np.array_equal(model.parameters.head, parameters.head)


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        (GGMLQuantizationType.F16, 0.002),
        (GGMLQuantizationType.BF16, 0.01),
        (GGMLQuantizationType.Q8_0, 0.02),
        (GGMLQuantizationType.Q4_0, 0.4),
        (GGMLQuantizationType.Q4_1, 0.4),
        (GGMLQuantizationType.Q5_0, 0.2),
        (GGMLQuantizationType.Q5_1, 0.2),
    ],
)
def test_quantised_tensors_are_near_to_what_was_quantised(
    kind: GGMLQuantizationType, bound: float, tmp_path: Path
) -> None:
    write_gguf("llama", tmp_path / "it.gguf", kind)
    model = open_model(tmp_path / "it.gguf", cache=tmp_path / "cache", dtype="float32")
    exact = random_tensors("llama")["lm_head.weight"].T
    assert 0 < np.max(np.abs(model.parameters.head - exact)) < bound


def test_the_second_start_reads_what_the_first_one_wrote(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    folder = converted_folder(tmp_path / "it.gguf", tmp_path / "cache", "float32")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert converted_folder(tmp_path / "it.gguf", tmp_path / "cache", "float32") == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert converted_folder(tmp_path / "it.gguf", tmp_path / "cache", "bfloat16") != folder


def test_engines_that_start_at_once_on_one_volume_convert_once(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    found: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(converted_folder(tmp_path / "it.gguf", tmp_path / "cache", "float32"))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert [path for path in (tmp_path / "cache" / "converted").iterdir() if path.is_dir()] == [found[0]]


def test_every_cut_of_a_file_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [0, 3, 4, 20, 100, 1000, len(whole) // 2, len(whole) - 1]:
        cut.write_bytes(whole[:size])
        with pytest.raises(CorruptModelError):
            converted_folder(cut, tmp_path / "cache", "float32")
    assert [path for path in (tmp_path / "cache" / "converted").iterdir() if path.is_dir()] == []


def test_flipped_bytes_in_the_header_never_crash_the_reader(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    random = np.random.default_rng(0)
    refusals = []
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[int(random.integers(0, 700))] = int(random.integers(0, 256))
        (tmp_path / "bad.gguf").write_bytes(damaged)
        try:
            hugging_face_folder(tmp_path / "bad.gguf", cache=tmp_path / "cache", dtype="float32")
        except WorkerError as error:
            refusals.append(str(error))
    assert len(refusals) > 10
    assert all("bad.gguf" in message for message in refusals)


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf", architecture="mamba")
    with pytest.raises(UnsupportedModelError, match="'mamba' is not supported"):
        converted_folder(tmp_path / "it.gguf", tmp_path / "cache", "float32")


def test_a_volume_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a folder should be")
    with pytest.raises(CacheVolumeError, match="must be writable"):
        converted_folder(tmp_path / "it.gguf", blocked, "float32")


def test_a_path_that_is_no_model_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="neither a folder nor"):
        hugging_face_folder(tmp_path / "nothing", cache=tmp_path, dtype="float32")
    with pytest.raises(ModelNotFoundError, match=r"neither a config\.json nor"):
        hugging_face_folder(tmp_path, cache=tmp_path, dtype="float32")
    write_gguf("llama", tmp_path / "a.gguf")
    write_gguf("llama", tmp_path / "b.gguf")
    with pytest.raises(ModelNotFoundError, match=r"several GGUF files \(a\.gguf, b\.gguf\)"):
        hugging_face_folder(tmp_path, cache=tmp_path, dtype="float32")
