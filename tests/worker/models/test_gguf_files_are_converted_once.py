"""GGUF files give the same model as the folder they were made from, are converted once, and are refused when damaged."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from dev.worker.models import random_tensors
from tests.worker.gguf_files import write_gguf
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
    assert isinstance(model.parameters.layers, tuple)
    assert isinstance(parameters.layers, tuple)
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


def test_another_file_under_the_same_path_is_never_answered_with_the_old_weights(tmp_path: Path) -> None:
    path, cache = tmp_path / "it.gguf", tmp_path / "cache"
    write_gguf("llama", path)
    first = open_model(path, cache=cache, dtype="float32").parameters.head
    times, content = path.stat(), bytearray(path.read_bytes())
    # The least that a look from outside cannot see: one bit of the last weight, the same size, the same times.
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = open_model(path, cache=cache, dtype="float32").parameters.head
    assert np.sum(first != second) == 1
    # Another model of another size; and the first one again, which is still there.
    write_gguf("qwen2", path)
    assert open_model(path, cache=cache, dtype="float32").config.model_type == "qwen2"
    write_gguf("llama", path)
    folders = set((cache / "converted").iterdir())
    assert np.array_equal(open_model(path, cache=cache, dtype="float32").parameters.head, first)
    assert set((cache / "converted").iterdir()) == folders


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
