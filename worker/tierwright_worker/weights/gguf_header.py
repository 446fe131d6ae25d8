"""Checks a GGUF file's header: what it counts must lie within the file, or a damaged count would be an endless loop.

Layout: github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

import mmap
import struct
from pathlib import Path

from gguf import GGMLQuantizationType

from tierwright_worker.errors import UnsupportedModelError

MOST_ENTRIES = 1 << 22  # of one array; the largest vocabularies have a sixteenth of it
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_DEEPEST = 4  # arrays of arrays; no known model has any
_MOST_DIMENSIONS = 4
_KINDS = frozenset(int(kind) for kind in GGMLQuantizationType)


def check_header(path: Path) -> None:
    """Walk over all metadata and the list of tensors.

    Raises:
        ValueError: no GGUF, a count or a length that the file has no room for, or a type that there is not.
        UnsupportedModelError: a tensor of a kind that is newer than the reader.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        walk = _Walk(data)
        for _ in range(walk.number("Q")):
            walk.string()
            walk.value(walk.number("I"), 0)
        for _ in range(walk.tensors):
            name = walk.text()
            dimensions = walk.number("I")
            if dimensions > _MOST_DIMENSIONS:
                raise ValueError(f"tensor {name!r} is said to have {dimensions} dimensions")
            for _ in range(dimensions):
                walk.number("Q")
            kind = walk.number("I")
            walk.number("Q")
            if kind not in _KINDS:
                raise unreadable(path, name, str(kind))


def unreadable(path: Path, tensor: str, kind: str) -> UnsupportedModelError:
    """The refusal of a tensor whose kind nothing here can read."""
    return UnsupportedModelError(
        f"{path}: tensor {tensor!r} is of the type {kind}, which this worker cannot read; use a file of another "
        "quantisation, or make one of the original model by llama.cpp's llama-quantize (Q4_K_M, Q8_0, F16 and most others are read)"
    )


class _Walk:
    """A place in the header."""

    def __init__(self, data: mmap.mmap) -> None:
        """Behind the version and the number of tensors."""
        self._data, self._at = data, 4
        self._order = "<"
        # A version that only makes sense backwards was written by a machine of the other byte order.
        if self.number("I") & 0xFFFF == 0:
            self._order = ">"
        self.tensors = self.number("Q")

    def number(self, form: str) -> int:
        """The next number; `form` as struct writes it."""
        size = struct.calcsize(f"{self._order}{form}")
        start = self._at
        self._skip(size)
        return int(struct.unpack_from(f"{self._order}{form}", self._data, start)[0])

    def string(self) -> None:
        """Go behind a string."""
        self._skip(self.number("Q"))

    def text(self) -> str:
        """The next string."""
        size = self.number("Q")
        start = self._at
        self._skip(size)
        return self._data[start : self._at].decode("utf-8", "replace")

    def value(self, kind: int, depth: int) -> None:
        """Go behind a value."""
        if kind == _STRING:
            self.string()
        elif kind == _ARRAY:
            self._array(depth)
        elif kind in _SIZES:
            self._skip(_SIZES[kind])
        else:
            raise ValueError(f"a value at byte {self._at} is of the unknown type {kind}")

    def _array(self, depth: int) -> None:
        kind, count = self.number("I"), self.number("Q")
        if count > MOST_ENTRIES or depth == _DEEPEST:
            raise ValueError(f"an array at byte {self._at} is said to have {count} entries")
        if kind in _SIZES:
            self._skip(count * _SIZES[kind])
            return
        for _ in range(count):
            self.value(kind, depth + 1)

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise ValueError(
                f"what begins at byte {self._at} needs {size} bytes, and the file ends before them"
            )
        self._at += size
