"""Maps a seed and a position to a uniform number, so that an answer depends on neither its batch nor its neighbours."""

import numpy as np
from numpy.typing import NDArray


def uniforms(seed: int, position: int, count: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) of `count` generated positions, shape (count,).

    Counter-based (Philox, Salmon et al., SC 2011): entry i of a call at `position` equals entry 0 of a call at
    `position + i`. Any integer is a seed; it counts modulo 2**64.
    """
    return np.array([_number(seed, position + offset) for offset in range(count)], dtype=np.float64)


def _number(seed: int, position: int) -> float:
    counter = np.array([0, position, 0, 0], dtype=np.uint64)
    key = np.array([seed % 2**64, 0], dtype=np.uint64)
    return float(np.random.Generator(np.random.Philox(counter=counter, key=key)).random())
