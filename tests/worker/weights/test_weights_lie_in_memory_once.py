"""Reading a model never needs the room of two, and what is read for the kernels is what arranging it later gives."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from dev.worker.models import RANDOM_MODELS
from tests.worker.support import random_model
from tierwright_worker import native
from tierwright_worker.models.config import read_config
from tierwright_worker.models.layout import Layout, arranged
from tierwright_worker.weights.assemble import load_parameters
from tierwright_worker.weights.safetensors_folder import SafetensorsFolder

_HIDDEN, _FFN, _LAYERS, _VOCABULARY = 512, 2048, 8, 16384
# Prints by how many bytes the process has grown at most while it read a folder: argument 1, for the kernels: argument 2.
_READ = """
import re, sys
from pathlib import Path
import jax
from tierwright_worker.models.config import read_config
from tierwright_worker.models.layout import Layout
from tierwright_worker.native.packing import Pages
from tierwright_worker.weights.assemble import load_parameters
from tierwright_worker.weights.safetensors_folder import SafetensorsFolder

def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

jax.block_until_ready(jax.device_put(Pages().take((8,), "float32")))
folder = Path(sys.argv[1])
source, config = SafetensorsFolder(folder), read_config(folder)
before = status("VmRSS")
read = load_parameters(source, config, "float32", layout=Layout(kernels=sys.argv[2] == "on"), place=jax.device_put)
jax.block_until_ready(read)
print(status("VmHWM") - before, sum(array.nbytes for array in jax.tree_util.tree_leaves(read)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 170 MB, a fifth of it the embedding that is its head as well."""
    path = tmp_path_factory.mktemp("model")
    config = {
        **RANDOM_MODELS["llama"],
        "hidden_size": _HIDDEN,
        "intermediate_size": _FFN,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": _VOCABULARY,
        "tie_word_embeddings": True,
    }
    (path / "config.json").write_text(json.dumps(config))
    square, vector = (_HIDDEN, _HIDDEN), (_HIDDEN,)
    shapes = {"model.embed_tokens.weight": (_VOCABULARY, _HIDDEN), "model.norm.weight": vector}
    for layer in range(_LAYERS):
        own = {
            "input_layernorm": vector,
            "self_attn.q_proj": square,
            "self_attn.k_proj": square,
            "self_attn.v_proj": square,
            "self_attn.o_proj": square,
            "post_attention_layernorm": vector,
            "mlp.gate_proj": (_FFN, _HIDDEN),
            "mlp.up_proj": (_FFN, _HIDDEN),
            "mlp.down_proj": (_HIDDEN, _FFN),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    save_file(
        {name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()}, path / "model.safetensors"
    )
    return path


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory is read as Linux tells it")
@pytest.mark.parametrize("kernels", ["on", "off"])
def test_a_process_grows_by_little_more_than_the_weights(folder: Path, kernels: str) -> None:
    if kernels == "on" and not native.usable():
        pytest.skip("python -m tierwright_worker.native.build")
    command = [sys.executable, "-c", _READ, str(folder), kernels]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    grown, weights = map(int, done.stdout.split())
    assert weights > 150e6
    # The largest array once more as the file's pages, and some of the code that reads: 25 %, not 100.
    assert weights < grown < 1.25 * weights


@pytest.mark.skipif(not native.usable(), reason="python -m tierwright_worker.native.build")
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("name", ["llama", "llama_all_biases_no_groups", "qwen2", "qwen3_tied"])
def test_reading_for_the_kernels_gives_what_arranging_gives(tmp_path: Path, name: str, int8: bool) -> None:
    config, plain = random_model(name, tmp_path)
    assert config == read_config(tmp_path)
    layout = Layout(kernels=True, int8=int8)
    read = load_parameters(SafetensorsFolder(tmp_path), config, "float32", layout=layout)
    expected = arranged(jax.tree_util.tree_map(jax.device_put, plain), layout)
    read = arranged(read, layout)  # an embedding that is only looked up is narrowed there
    assert str(jax.tree_util.tree_structure(read)) == str(jax.tree_util.tree_structure(expected))
    for mine, theirs in zip(*map(jax.tree_util.tree_leaves, (read, expected)), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
