"""Whatever stands in a model's files, opening it gives a model or one of the worker's own errors; nothing else, and not for long."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from dev.worker.models import RANDOM_MODELS
from tests.worker.gguf_files import write_gguf
from tests.worker.loading.opening import opens
from tests.worker.support import random_model

FUZZ = settings(
    max_examples=40,
    deadline=20_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
FILES = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just("x" * 10_000),
    st.just([[[[]]]]),
    st.lists(st.integers(), max_size=3),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with all files."""
    folder = tmp_path_factory.mktemp("whole")
    random_model("llama", folder)
    size = RANDOM_MODELS["llama"]["vocab_size"]
    tokenizer = Tokenizer(models.WordLevel({f"w{at}": at for at in range(size)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "w1", "bos_token": {"content": "w2"}})
    )
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1]}))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    opens(folder)
    return folder


def copy_of(whole: Path, to: Path) -> Path:
    """A copy to damage; large files are linked."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(whole, to)
    return to


def test_the_whole_model_opens(whole: Path) -> None:
    assert opens(whole)


@pytest.mark.parametrize("name", FILES)
@FUZZ
@given(at=st.integers(0, 10**6), data=st.binary(max_size=8), cut=st.booleans())
def test_bytes_of_a_file_are_overwritten_or_cut(
    whole: Path, tmp_path: Path, name: str, at: int, data: bytes, cut: bool
) -> None:
    folder = copy_of(whole, tmp_path / "model")
    content = bytearray((folder / name).read_bytes())
    place = at % (len(content) + 1)
    damaged = content[:place] + data + (b"" if cut else content[place + len(data) :])
    (folder / name).write_bytes(damaged)
    opens(folder)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
@FUZZ
@given(data=st.data())
def test_values_of_a_configuration_are_of_any_kind(
    whole: Path, tmp_path: Path, name: str, data: st.DataObject
) -> None:
    folder = copy_of(whole, tmp_path / "model")
    config: dict[str, Any] = json.loads((folder / name).read_text())
    config.update(
        {"rope_scaling": None, "chat_template": None, "eos_token_id": [1]} if name == "config.json" else {}
    )
    key = data.draw(st.sampled_from(sorted(config)))
    config[key] = data.draw(VALUES)
    (folder / name).write_text(json.dumps(config))
    opens(folder)


@FUZZ
@given(data=st.data())
def test_a_header_of_tensors_may_say_anything(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = copy_of(whole, tmp_path / "model")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    name = data.draw(st.sampled_from(sorted(name for name in header if name != "__metadata__")))
    key = data.draw(st.sampled_from(["dtype", "shape", "data_offsets", "whole"]))
    value = data.draw(
        st.one_of(VALUES, st.lists(st.integers(0, 2**64), max_size=5), st.sampled_from(["F16", "I8", "BOOL"]))
    )
    if key == "whole":
        header[name] = value
    else:
        header[name][key] = value
    written = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(written)) + written + content[8 + length :])
    opens(folder)


@FUZZ
@given(at=st.integers(0, 4000), data=st.binary(min_size=1, max_size=9))
def test_a_gguf_file_is_overwritten_anywhere_in_its_metadata(
    tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "gguf"
    folder.mkdir(exist_ok=True)
    source = folder / "whole.bin"
    if not source.exists():
        write_gguf("llama", folder / "it.gguf")
        (folder / "it.gguf").rename(source)
    content = source.read_bytes()
    place = at % len(content)
    (folder / "bad.gguf").write_bytes(content[:place] + data + content[place + len(data) :])
    opens(folder / "bad.gguf")
