"""What this machine could do at best: how fast it reads the model's weights, and how fast it multiplies.

A plain step reads every weight once, so it takes no less than that reading; a long prompt's products take two operations
for each weight outside the embedding and each token. Attention and all else come on top.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_COLUMNS = 1024
_SQUARE = 2048
_TIMES = 9


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds to read all weights once in f32, and operations per second of a large product; the best of several tries."""

    read_seconds: float
    operations_per_second: float
    parameters: int
    product_parameters: int

    @property
    def steps_per_second(self) -> float:
        """Plain steps per second, at most."""
        return 1 / self.read_seconds

    @property
    def prompt_tokens_per_second(self) -> float:
        """Prompt tokens per second, at most."""
        return self.operations_per_second / (2 * self.product_parameters)


def measure_roofline(parameters: int, product_parameters: int) -> Roofline:
    """Measure with numpy's own BLAS on all cores. `product_parameters`: the weights that a prompt's tokens go through."""
    weights = np.ones((max(parameters // _COLUMNS, 1), _COLUMNS), np.float32)
    vector = np.ones(_COLUMNS, np.float32)
    read = _best(lambda: weights @ vector)
    square = np.ones((_SQUARE, _SQUARE), np.float32)
    product = _best(lambda: square @ square)
    return Roofline(read, 2 * _SQUARE**3 / product, parameters, product_parameters)


def _best(run: Callable[[], object]) -> float:
    """The least of several times, in seconds; the first run is for warmth."""
    seconds = []
    for _ in range(_TIMES + 1):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])
