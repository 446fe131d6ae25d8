"""Maps a seed and a position to uniform numbers, so that an answer depends on neither its batch nor its neighbours."""

import numpy as np
from numpy.typing import NDArray

PER_POSITION = 2


def uniforms(seed: int, position: int, count: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) of `count` generated positions, shape (count, PER_POSITION).

    Counter-based (Philox, Salmon et al., SC 2011): row i of a call at `position` equals row 0 of a call at
    `position + i`. Any integer is a seed; it counts modulo 2**64.
    """
    rows = [_row(seed, position + offset) for offset in range(count)]
    return np.array(rows, dtype=np.float64).reshape(count, PER_POSITION)


def _row(seed: int, position: int) -> NDArray[np.float64]:
    counter = np.array([0, position, 0, 0], dtype=np.uint64)
    key = np.array([seed % 2**64, 0], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key)).random(PER_POSITION)
