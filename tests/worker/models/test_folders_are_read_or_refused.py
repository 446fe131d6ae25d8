"""Hugging Face folders: sharded or not, whole or damaged; every refusal is one clear error of its kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dev.worker.models import RANDOM_MODELS, random_tensors
from tests.worker.support import random_model
from tierwright_worker.errors import (
    CorruptModelError,
    ModelNotFoundError,
    UnsupportedModelError,
    WorkerError,
)
from tierwright_worker.models.config import config_from_hf, read_config
from tierwright_worker.weights.assemble import load_parameters
from tierwright_worker.weights.safetensors_folder import SafetensorsFolder


def reload(folder: Path) -> Any:
    """The folder's parameters."""
    return load_parameters(SafetensorsFolder(folder), read_config(folder), "float32")


def change(folder: Path, **values: object) -> None:
    """Change values of config.json; None removes one."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_shards_give_what_one_file_gives(tmp_path: Path) -> None:
    _, whole = random_model("qwen2", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    weight_map = {name: f"model-{at % 3}.safetensors" for at, name in enumerate(sorted(tensors))}
    for shard in set(weight_map.values()):
        save_file({name: tensors[name] for name in tensors if weight_map[name] == shard}, tmp_path / shard)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    sharded = reload(tmp_path)
    assert isinstance(sharded.layers, tuple)
    assert isinstance(whole.layers, tuple)
    assert np.array_equal(sharded.layers[1].qkv, whole.layers[1].qkv)
    bias = whole.layers[1].qkv_bias
    assert bias is not None
    assert np.array_equal(sharded.layers[1].qkv_bias, bias)
    assert np.array_equal(sharded.head, whole.head)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(ModelNotFoundError, match=r"lacks model-1\.safetensors"):
        reload(tmp_path)


def test_projections_are_joined_in_the_order_query_key_value(tmp_path: Path) -> None:
    config, parameters = random_model("mistral", tmp_path)
    tensors = random_tensors("mistral")
    parts = [tensors[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "qkv"]
    assert isinstance(parameters.layers, tuple)
    assert np.array_equal(parameters.layers[0].qkv, np.concatenate(parts).T)
    assert parameters.layers[0].qkv.shape == (config.hidden_size, config.q_size + 2 * config.kv_size)


@pytest.mark.parametrize(
    ("values", "kind", "says"),
    [
        ({"model_type": "gpt2"}, UnsupportedModelError, "'gpt2' is not supported; this worker serves llama"),
        ({"model_type": None}, CorruptModelError, "model_type is None"),
        ({"hidden_act": "gelu"}, UnsupportedModelError, "only silu is"),
        ({"rope_scaling": {"rope_type": "longrope"}}, UnsupportedModelError, "'longrope' is not supported"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, CorruptModelError, "original_max_position"),
        ({"rope_scaling": {"rope_type": "linear"}}, CorruptModelError, "factor is None"),
        ({"num_hidden_layers": 0}, CorruptModelError, "num_hidden_layers is 0"),
        ({"vocab_size": 10**12}, CorruptModelError, "vocab_size is 1000000000000"),
        ({"num_key_value_heads": 3}, CorruptModelError, "cannot share 3 key-value heads"),
        ({"rms_norm_eps": "small"}, CorruptModelError, "rms_norm_eps is 'small'"),
        ({"tie_word_embeddings": 1}, CorruptModelError, "true or false is needed"),
        ({"eos_token_id": [-1]}, CorruptModelError, "token ids are needed"),
        ({"head_dim": 5}, CorruptModelError, "odd"),
        ({"hidden_size": 128}, CorruptModelError, "the configuration says"),
        ({"num_hidden_layers": 3}, CorruptModelError, "holds no tensor 'model.layers.2"),
    ],
)
def test_a_configuration_that_cannot_be_served_is_refused(
    tmp_path: Path, values: dict[str, object], kind: type[WorkerError], says: str
) -> None:
    random_model("llama", tmp_path)
    change(tmp_path, **values)
    with pytest.raises(kind, match=says.replace("'", ".")):
        reload(tmp_path)


def test_older_and_newer_spellings_of_rope_mean_the_same() -> None:
    base = {key: value for key, value in RANDOM_MODELS["llama"].items() if key != "rope_theta"}
    scaling = {"type": "linear", "factor": 4.0}
    older = config_from_hf({**base, "rope_theta": 5e5, "rope_scaling": scaling}, where="older")
    newer = config_from_hf(
        {**base, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}}, where="newer"
    )
    assert older == newer
    assert (older.rope_theta, older.rope_scaling.factor) == (5e5, 4.0)


def test_a_sliding_window_shortens_the_context() -> None:
    mistral = RANDOM_MODELS["mistral"]
    assert config_from_hf({**mistral, "sliding_window": 100}, where="it").max_position == 100
    qwen = {**RANDOM_MODELS["qwen2"], "sliding_window": 100}
    assert config_from_hf({**qwen, "use_sliding_window": False}, where="it").max_position == 512
    assert config_from_hf({**qwen, "use_sliding_window": True}, where="it").max_position == 100


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00\xff", "[" * 5000, '{"model_type": NaN}'])
def test_a_damaged_config_json_is_refused(tmp_path: Path, content: str) -> None:
    random_model("llama", tmp_path)
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(CorruptModelError, match=r"config\.json"):
        read_config(tmp_path)


def test_damaged_safetensors_are_refused_without_reading_far(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    bombs = {
        "empty": b"",
        "cut in the header": whole[:40],
        "cut in the data": whole[:-1],
        "header longer than the file": (1 << 62).to_bytes(8, "little") + whole[8:],
        "header of 99 MB of nothing": (99 << 20).to_bytes(8, "little") + b"{",
        "no JSON": whole[:8] + b"x" * (len(whole) - 8),
    }
    for name, content in bombs.items():
        path.write_bytes(content)
        with pytest.raises(CorruptModelError, match="no readable safetensors file"):
            reload(tmp_path)
        assert name


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = np.inf
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CorruptModelError, match=r"layers\.1\.mlp\.up_proj.*not finite"):
        reload(tmp_path)


def test_integer_tensors_are_named_as_unsupported(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    tensors: dict[str, Any] = dict(load_file(tmp_path / "model.safetensors"))
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name].astype(np.int8)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedModelError, match="stored as I8"):
        reload(tmp_path)


def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    with pytest.raises(CorruptModelError, match="outside its folder"):
        reload(tmp_path)


def test_pickled_checkpoints_are_not_read(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelNotFoundError, match="pickled"):
        reload(tmp_path)
