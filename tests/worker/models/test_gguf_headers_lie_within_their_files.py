"""A GGUF header whose counts are damaged is one error at once; the library that reads the file would loop over them."""

import struct
from pathlib import Path

import pytest

from tests.worker.gguf_files import write_gguf
from tierwright_worker.errors import CorruptModelError
from tierwright_worker.weights.gguf_file import GgufFile
from tierwright_worker.weights.gguf_header import check_header

ARRAY, UINT8, STRING = 9, 0, 8


def header(entries: int, *parts: bytes) -> bytes:
    """A file of so many entries of metadata and no tensor."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, entries) + b"".join(parts)


def text(value: str) -> bytes:
    """A string."""
    return struct.pack("<Q", len(value)) + value.encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"GGML" + bytes(20), "does not begin with GGUF"),
        (b"GGUF\x03", "the file ends before them"),
        (header(2**60), "the file ends before them"),
        (header(1, struct.pack("<Q", 2**62)), "the file ends before them"),
        (header(1, text("a"), struct.pack("<I", 77)), "unknown type 77"),
        (header(1, text("a"), struct.pack("<IIQ", ARRAY, UINT8, 2**40), bytes(100)), "1099511627776 entries"),
        (header(1, text("a"), struct.pack("<IIQ", ARRAY, UINT8, 2**20), bytes(100)), "ends before them"),
        (header(1, text("a"), struct.pack("<IIQ", ARRAY, STRING, 2**20), bytes(99)), "ends before them"),
        (
            header(1, text("a"), struct.pack("<I", ARRAY), struct.pack("<IQ", ARRAY, 1) * 20_000),
            "said to have 1 entries",
        ),
    ],
)
def test_a_damaged_count_is_named(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(CorruptModelError, match=says):
        GgufFile(path)


def test_a_whole_file_passes_and_each_cut_of_its_header_does_not(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    check_header(tmp_path / "it.gguf")
    content = (tmp_path / "it.gguf").read_bytes()
    for end in range(1, 2000, 97):
        (tmp_path / "cut.gguf").write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"ends before them|does not begin with GGUF"):
            check_header(tmp_path / "cut.gguf")
