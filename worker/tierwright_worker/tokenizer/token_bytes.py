"""Gives the bytes that each token stands for, so that text can be joined token by token without decoding anew."""

import json
from functools import cache
from typing import Any

from tokenizers import Tokenizer

SPACE_MARK = "▁"


def token_bytes(tokenizer: Tokenizer) -> tuple[bytes, ...]:
    """Bytes by token id; b"" for special tokens and for ids without a token.

    Covers byte-level tokenizers (GPT-2's alphabet) and sentencepiece-like ones (a mark for the space, `<0x0A>` for single
    bytes), told apart by the tokenizer's own decoder. A leading space is kept: an answer continues its prompt.
    """
    added = tokenizer.get_added_tokens_decoder()
    byte_level = "ByteLevel" in _decoder_types(json.loads(tokenizer.to_str()).get("decoder"))
    table = [b""] * (max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1)
    for text, token in tokenizer.get_vocab(with_added_tokens=True).items():
        known = added.get(token)
        if known is not None:
            # Added tokens are text as it stands, whatever the alphabet of the others.
            table[token] = b"" if known.special else known.content.encode("utf-8", "replace")
        elif byte_level:
            table[token] = _from_byte_level(text)
        else:
            table[token] = _from_pieces(text)
    return tuple(table)


def _decoder_types(decoder: Any) -> set[str]:
    if not isinstance(decoder, dict):
        return set()
    nested = decoder.get("decoders") or []
    return {str(decoder.get("type"))}.union(*(_decoder_types(inner) for inner in nested))


def _from_byte_level(text: str) -> bytes:
    alphabet = _byte_alphabet()
    if all(letter in alphabet for letter in text):
        return bytes(alphabet[letter] for letter in text)
    return text.encode("utf-8", "replace")


def _from_pieces(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes([int(text[3:5], 16)])
        except ValueError:
            return text.encode()
    return text.replace(SPACE_MARK, " ").encode("utf-8", "replace")


@cache
def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return alphabet | {chr(256 + place): byte for place, byte in enumerate(others)}
