"""Each of GGUF's quantisations is read as ggml defines it, or refused with the tensor's name, the kind and what to do."""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGML_QUANT_SIZES, GGUFWriter, dequantize, quants
from gguf import GGMLQuantizationType as Kind

from tests.worker.gguf_definitions import DEFINED, HALVES
from tierwright_worker.errors import CorruptModelError, UnsupportedModelError
from tierwright_worker.weights.gguf_file import GgufFile

ROWS, BLOCKS = 3, 2
READ = [kind for kind in Kind if kind in quants._type_traits]
REFUSED = [kind for kind in Kind if kind not in quants._type_traits and kind not in (Kind.F32, Kind.F16)]
NAME, HF_NAME = "blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"


def random_blocks(kind: Kind) -> npt.NDArray[np.uint8]:
    """Rows of blocks of arbitrary bits, whose half-precision numbers are small ones, all different; [rows, bytes]."""
    size = GGML_QUANT_SIZES[kind][1]
    random = np.random.default_rng(int(kind))
    data = random.integers(0, 256, (ROWS, BLOCKS, size), dtype=np.uint8)
    for at in HALVES.get(kind, ()):
        numbers = random.uniform(-2, 2, (ROWS, BLOCKS)).astype("<f2")
        data[..., at : at + 2] = numbers[..., None].view(np.uint8)
    if kind is Kind.MXFP4:
        data[..., 0] = random.integers(120, 136, (ROWS, BLOCKS))
    return data.reshape(ROWS, BLOCKS * size)


def write(path: Path, kind: Kind, data: npt.NDArray[np.uint8]) -> Path:
    """A file with one tensor."""
    writer = GGUFWriter(path, "llama")
    writer.add_head_count(1)
    writer.add_tensor(NAME, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.name)
def test_blocks_hold_the_values_that_ggml_defines(kind: Kind, tmp_path: Path) -> None:
    data = random_blocks(kind)
    size = GGML_QUANT_SIZES[kind][1]
    expected = [
        [value for at in range(0, len(row), size) for value in DEFINED[kind](row[at : at + size].tobytes())]
        for row in data
    ]
    found = GgufFile(write(tmp_path / "it.gguf", kind, data)).read(HF_NAME)
    assert found.dtype == np.float32
    assert found.shape == (ROWS, BLOCKS * GGML_QUANT_SIZES[kind][0])
    assert np.ptp(found) > 0
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in READ if kind not in DEFINED], ids=lambda kind: kind.name)
def test_kinds_with_tables_of_codewords_keep_rows_and_order(kind: Kind, tmp_path: Path) -> None:
    data = random_blocks(kind)
    found = GgufFile(write(tmp_path / "it.gguf", kind, data)).read(HF_NAME)
    assert found.shape == (ROWS, BLOCKS * GGML_QUANT_SIZES[kind][0])
    for row, values in zip(data, found, strict=True):
        np.testing.assert_array_equal(values, dequantize(row[None], kind)[0])


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.name)
def test_what_cannot_be_read_is_refused_by_its_name_with_the_way_out(kind: Kind, tmp_path: Path) -> None:
    file = GgufFile(write(tmp_path / "it.gguf", kind, random_blocks(kind)))
    with pytest.raises(UnsupportedModelError) as refusal:
        file.read(HF_NAME)
    said = str(refusal.value)
    assert str(tmp_path / "it.gguf") in said
    assert f"tensor '{NAME}' is of the type {kind.name}," in said
    assert "llama-quantize" in said
    assert "Q4_K" in said


def test_a_kind_that_is_newer_than_the_reader_is_refused_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "it.gguf", Kind.F32, np.zeros((1, 32), np.float32).view(np.uint8))
    content = bytearray(path.read_bytes())
    # Behind a tensor's name: the number of its dimensions, each one's size, its kind, its place.
    at = content.index(NAME.encode()) + len(NAME)
    (dimensions,) = struct.unpack_from("<I", content, at)
    struct.pack_into("<I", content, at + 4 + 8 * dimensions, 999)
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=f"tensor '{NAME}' is of the type 999, .*llama-quantize"):
        GgufFile(path)


def test_a_tensor_said_to_be_longer_than_the_file_is_damage_not_a_kind(tmp_path: Path) -> None:
    path = write(tmp_path / "it.gguf", Kind.Q4_K, random_blocks(Kind.Q4_K))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CorruptModelError):
        GgufFile(path)
