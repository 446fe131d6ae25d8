"""Checks that what a GGUF file's header counts lies within the file, so that a damaged count is an error and no endless loop.

Layout: github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

import mmap
import struct
from pathlib import Path

MOST_ENTRIES = 1 << 22  # of one array; the largest vocabularies have a sixteenth of it
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_DEEPEST = 4  # arrays of arrays; no known model has any


def check_header(path: Path) -> None:
    """Walk over all metadata.

    Raises:
        ValueError: no GGUF, a count or a length that the file has no room for, or a type that there is not.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        walk = _Walk(data)
        for _ in range(walk.number("Q")):
            walk.string()
            walk.value(walk.number("I"), 0)


class _Walk:
    """A place in the header."""

    def __init__(self, data: mmap.mmap) -> None:
        """Behind the version and the number of tensors."""
        self._data, self._at = data, 4
        self._order = "<"
        # A version that only makes sense backwards was written by a machine of the other byte order.
        if self.number("I") & 0xFFFF == 0:
            self._order = ">"
        self.number("Q")

    def number(self, form: str) -> int:
        """The next number; `form` as struct writes it."""
        size = struct.calcsize(f"{self._order}{form}")
        start = self._at
        self._skip(size)
        return int(struct.unpack_from(f"{self._order}{form}", self._data, start)[0])

    def string(self) -> None:
        """Go behind a string."""
        self._skip(self.number("Q"))

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
