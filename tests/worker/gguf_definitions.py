"""Reads blocks of GGUF's quantisations value by value as ggml defines them: a second opinion on the reader in use, slow and plain.

Layouts and rules: github.com/ggml-org/ggml, src/ggml-common.h (the blocks) and the comments on bits per weight there. Formats
whose values come from long tables of codewords (IQ1, IQ2, IQ3) are not here.
"""

import struct
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from gguf import GGMLQuantizationType as Kind

Read = Callable[[bytes], Iterator[float]]
# The sixteen levels of IQ4, and of 4-bit floats with a shared exponent (twice their value).
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def _half(block: bytes, at: int) -> float:
    return float(np.frombuffer(block, "<f2", 1, at)[0])


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _nibbles(packed: bytes) -> Iterator[int]:
    """All low halves, then all high ones."""
    yield from (byte & 15 for byte in packed)
    yield from (byte >> 4 for byte in packed)


def _bfloat16(block: bytes) -> Iterator[float]:
    yield float(struct.unpack("<f", b"\0\0" + block)[0])


def _q4_0(block: bytes) -> Iterator[float]:
    yield from (_half(block, 0) * (level - 8) for level in _nibbles(block[2:]))


def _q4_1(block: bytes) -> Iterator[float]:
    yield from (_half(block, 0) * level + _half(block, 2) for level in _nibbles(block[4:]))


def _fifth_bits(four: bytes) -> list[int]:
    (bits,) = struct.unpack("<I", four)
    return [(bits >> at & 1) << 4 for at in range(32)]


def _q5_0(block: bytes) -> Iterator[float]:
    for level, fifth in zip(_nibbles(block[6:]), _fifth_bits(block[2:6]), strict=True):
        yield _half(block, 0) * ((level | fifth) - 16)


def _q5_1(block: bytes) -> Iterator[float]:
    for level, fifth in zip(_nibbles(block[8:]), _fifth_bits(block[4:8]), strict=True):
        yield _half(block, 0) * (level | fifth) + _half(block, 2)


def _q8_0(block: bytes) -> Iterator[float]:
    yield from (_half(block, 0) * _signed(byte) for byte in block[2:])


def _two_bits(packed: bytes) -> Iterator[int]:
    """256 values of two bits: in each half, the lowest bits of 32 bytes first."""
    for half in (0, 32):
        for shift in (0, 2, 4, 6):
            yield from (byte >> shift & 3 for byte in packed[half : half + 32])


def _q2_k(block: bytes) -> Iterator[float]:
    scales, levels = block[:16], _two_bits(block[16:80])
    scale, least = _half(block, 80), _half(block, 82)
    for at, level in enumerate(levels):
        own = scales[at // 16]
        yield scale * (own & 15) * level - least * (own >> 4)


def _q3_k(block: bytes) -> Iterator[float]:
    masks, levels, packed = block[:32], _two_bits(block[32:96]), block[96:108]
    for at, level in enumerate(levels):
        group = at // 16
        low = packed[group] & 15 if group < 8 else packed[group - 8] >> 4
        own = low | (packed[8 + group % 4] >> 2 * (group // 4) & 3) << 4
        missing = 0 if masks[at % 32] >> at // 32 & 1 else 4
        yield _half(block, 108) * (own - 32) * (level - missing)


def _six_bits(packed: bytes) -> list[tuple[int, int]]:
    """Eight pairs of a scale and a least value, six bits each, in twelve bytes."""
    pairs = [(packed[at] & 63, packed[at + 4] & 63) for at in range(4)]
    for at in range(4):
        low, high = packed[8 + at] & 15, packed[8 + at] >> 4
        pairs.append((low | packed[at] >> 6 << 4, high | packed[at + 4] >> 6 << 4))
    return pairs


def _four_bits(packed: bytes) -> Iterator[int]:
    """256 values of four bits: of each 32 bytes the low halves first."""
    for start in range(0, 128, 32):
        yield from _nibbles(packed[start : start + 32])


def _q4_k(block: bytes) -> Iterator[float]:
    pairs = _six_bits(block[4:16])
    for at, level in enumerate(_four_bits(block[16:])):
        own, least = pairs[at // 32]
        yield _half(block, 0) * own * level - _half(block, 2) * least


def _q5_k(block: bytes) -> Iterator[float]:
    pairs, fifth = _six_bits(block[4:16]), block[16:48]
    for at, level in enumerate(_four_bits(block[48:])):
        own, least = pairs[at // 32]
        whole = level | (fifth[at % 32] >> at // 32 & 1) << 4
        yield _half(block, 0) * own * whole - _half(block, 2) * least


def _q6_k(block: bytes) -> Iterator[float]:
    low, high, scales = block[:128], block[128:192], block[192:208]
    for at in range(256):
        half, quarter, place = at // 128, at % 128 // 32, at % 32
        four = low[64 * half + 32 * (quarter % 2) + place] >> 4 * (quarter // 2) & 15
        level = four | (high[32 * half + place] >> 2 * quarter & 3) << 4
        yield _half(block, 208) * _signed(scales[at // 16]) * (level - 32)


def _iq4_nl(block: bytes) -> Iterator[float]:
    yield from (_half(block, 0) * _IQ4[level] for level in _nibbles(block[2:]))


def _iq4_xs(block: bytes) -> Iterator[float]:
    (high,) = struct.unpack_from("<H", block, 2)
    low = block[4:8]
    for group in range(8):
        own = low[group // 2] >> 4 * (group % 2) & 15 | (high >> 2 * group & 3) << 4
        for level in _nibbles(block[8 + 16 * group : 24 + 16 * group]):
            yield _half(block, 0) * (own - 32) * _IQ4[level]


def _tq2_0(block: bytes) -> Iterator[float]:
    yield from (_half(block, 64) * (level - 1) for level in _two_bits(block[:64]))


def _tq1_0(block: bytes) -> Iterator[float]:
    # Five digits of base three a byte, written as a fraction of 256, so that a product's carry is the digit.
    for part, digits in ((block[:32], 5), (block[32:48], 5), (block[48:52], 4)):
        for digit in range(digits):
            for byte in part:
                yield _half(block, 52) * ((byte * 3**digit % 256) * 3 // 256 - 1)


def _mxfp4(block: bytes) -> Iterator[float]:
    yield from (2.0 ** (block[0] - 128) * _FP4[level] for level in _nibbles(block[1:]))


DEFINED: Mapping[Kind, Read] = {
    Kind.BF16: _bfloat16,
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q5_0: _q5_0,
    Kind.Q5_1: _q5_1,
    Kind.Q8_0: _q8_0,
    Kind.Q2_K: _q2_k,
    Kind.Q3_K: _q3_k,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
    Kind.Q6_K: _q6_k,
    Kind.IQ4_NL: _iq4_nl,
    Kind.IQ4_XS: _iq4_xs,
    Kind.TQ1_0: _tq1_0,
    Kind.TQ2_0: _tq2_0,
    Kind.MXFP4: _mxfp4,
}
"""By kind, the values of one block."""
HALVES: Mapping[Kind, tuple[int, ...]] = {
    Kind.BF16: (0,),
    Kind.Q4_0: (0,),
    Kind.Q4_1: (0, 2),
    Kind.Q5_0: (0,),
    Kind.Q5_1: (0, 2),
    Kind.Q8_0: (0,),
    Kind.Q2_K: (80, 82),
    Kind.Q3_K: (108,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
    Kind.IQ4_NL: (0,),
    Kind.IQ4_XS: (0,),
    Kind.TQ1_0: (52,),
    Kind.TQ2_0: (64,),
    Kind.IQ2_XXS: (0,),
    Kind.IQ2_XS: (0,),
    Kind.IQ2_S: (0,),
    Kind.IQ3_XXS: (0,),
    Kind.IQ3_S: (0,),
    Kind.IQ1_S: (0,),
}
"""Where a block holds a half-precision number, which arbitrary bits would make infinite or none."""
