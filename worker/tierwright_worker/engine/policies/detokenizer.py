"""Turns tokens into text as they come, never showing a piece of a character."""

import codecs
from collections.abc import Callable

TokenBytes = Callable[[int], bytes]


class IncrementalDecoder:
    """Text of one answer, token by token, in constant time each.

    `token_bytes` gives the bytes of a token, b"" for a special one. All that is returned, joined, equals decoding the
    joined bytes as UTF-8 with U+FFFD for what is not valid; an unfinished character is held back until it is complete.
    """

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that became certain with this token, often "" inside a character."""
        return self._decoder.decode(self._token_bytes(token))

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that never came whole, else ""."""
        return self._decoder.decode(b"", final=True)
