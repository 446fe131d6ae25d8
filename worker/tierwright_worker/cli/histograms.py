"""Reads the bounds of latency histograms from the command line: JSON by family, spelt as vLLM spells it."""

import argparse
import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

FAMILIES = ("inter_token_latency", "request_latency", "time_to_first_token")
"""Those of vLLM's families whose bounds are seconds of a request; the first is also that of the time per output token."""


def histogram_buckets(text: str) -> Mapping[str, tuple[float, ...]]:
    """Bounds by family. Raises argparse.ArgumentTypeError: no such JSON, an unknown family, or bounds that do not rise."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError("write a JSON object, bounds by family")
    if unknown := sorted(given.keys() - set(FAMILIES)):
        raise argparse.ArgumentTypeError(
            f"no bounds can be set for {', '.join(unknown)}; there are {', '.join(FAMILIES)}"
        )
    return {family: _bounds(family, values) for family, values in given.items()}


def _bounds(family: str, values: Any) -> tuple[float, ...]:
    numbers = isinstance(values, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values
    )
    if (
        not numbers
        or not values
        or values[0] <= 0
        or not all(math.isfinite(each) for each in values)
        or not all(low < high for low, high in pairwise(values))
    ):
        raise argparse.ArgumentTypeError(
            f"{family}: write a list of positive numbers, each larger than the one before"
        )
    return tuple(float(each) for each in values)
