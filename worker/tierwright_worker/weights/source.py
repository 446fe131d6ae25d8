"""A source of named tensors, whatever the file format; names are those of Hugging Face's Llama checkpoints."""

from typing import Any, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt

HostArray = npt.NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "bfloat16": BFLOAT16}


class TensorSource(Protocol):
    """Tensors by name, read one at a time, so that never more than one layer lies in memory twice."""

    def names(self) -> frozenset[str]:
        """All names."""
        ...

    def read(self, name: str) -> HostArray:
        """One tensor, floating point; raises CorruptModelError when it cannot be read."""
        ...

    def where(self) -> str:
        """The file or folder, for messages."""
        ...
