"""The digest of the code that decides for a policy: its module and whatever of the same package that imports."""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_WITHIN = ("bench.autoscale.baselines", "tierwright.capacity")
"""Packages whose modules decide; what they are fed (pages, the parser, the model of a fleet) is the same for all policies."""


@cache
def digest(module: str) -> str:
    """Twelve hexadecimal digits over the sources of the module and of those within the deciding packages that it imports."""
    found: set[str] = set()
    _gather(module, found)
    return hashlib.sha256(b"".join(_source(each).encode() for each in sorted(found))).hexdigest()[:12]


def _gather(module: str, found: set[str]) -> None:
    if module in found:
        return
    found.add(module)
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_WITHIN):
            _gather(node.module, found)


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module} has no source to take a digest of")
    return Path(spec.origin).read_text("utf-8")
