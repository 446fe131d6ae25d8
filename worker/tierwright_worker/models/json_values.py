"""Reads single values out of a model's JSON files, each with its type and range checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierwright_worker.errors import CorruptModelError

# No dimension of a real model comes near; keeps a damaged file from asking for all memory.
_MAX_SIZE = 1 << 24


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one value each, with its type and range checked."""

    raw: Mapping[str, Any]
    where: str

    def size(self, key: str, default: int | None = None) -> int:
        value = self.raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MAX_SIZE:
            raise CorruptModelError(
                f"{self.where}: {key} is {value!r}; a whole number from 1 to {_MAX_SIZE} is needed"
            )
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise CorruptModelError(f"{self.where}: {key} is {value!r}; a number above 0 is needed")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw.get(key, default)
        if not isinstance(value, bool):
            raise CorruptModelError(f"{self.where}: {key} is {value!r}; true or false is needed")
        return value

    def text(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str):
            raise CorruptModelError(f"{self.where}: {key} is {value!r}; a word is needed")
        return value

    def tokens(self, key: str) -> tuple[int, ...]:
        value = self.raw.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in values):
            raise CorruptModelError(f"{self.where}: {key} is {value!r}; token ids are needed")
        return tuple(values)

    def token(self, key: str) -> int | None:
        tokens = self.tokens(key)
        return tokens[0] if tokens else None
