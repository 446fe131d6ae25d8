"""Decides what a key of a label, a taint or an annotation looks like (Kubernetes: a qualified name)."""

import re
from typing import Final

_SIZE: Final = 317
_PATTERN: Final = (
    r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)


def is_key(text: str) -> bool:
    """Whether the text is a qualified name: an optional DNS prefix with `/`, then up to 63 characters."""
    return len(text) <= _SIZE and re.fullmatch(_PATTERN, text) is not None


def key_cel(expression: str) -> str:
    """``is_key`` for the API server."""
    return f"({expression}.size() <= {_SIZE} && {expression}.matches(r'{_PATTERN}'))"
