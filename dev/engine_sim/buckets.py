"""Reads `--custom-histogram-buckets`: bounds by family, checked as vLLM's observability configuration checks them."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

FAMILIES = frozenset(
    {
        "request_latency",
        "time_to_first_token",
        "inter_token_latency",
        "iteration_tokens",
        "request_params_n",
        "request_num_preemptions",
        "request_tokens",
        "kv_cache_residency",
    }
)


class BucketsError(ValueError):
    """Bounds with which vLLM would not start; the message says what is wrong."""


def parse_buckets(given: Any) -> Mapping[str, tuple[float, ...]]:
    """Bounds by family; empty when nothing was given. Raises BucketsError."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BucketsError("custom_histogram_buckets: must be a JSON object")
    if unknown := sorted(given.keys() - FAMILIES):
        raise BucketsError(f"custom_histogram_buckets: unknown families {', '.join(unknown)}")
    return {family: _bounds(family, values) for family, values in given.items()}


def _bounds(family: str, values: Any) -> tuple[float, ...]:
    numbers = isinstance(values, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values
    )
    if not numbers or not values:
        raise BucketsError(f"custom_histogram_buckets.{family}: must be a list of numbers")
    rising = all(low < high for low, high in pairwise(values))
    if not rising or values[0] <= 0 or not all(math.isfinite(each) for each in values):
        raise BucketsError(f"custom_histogram_buckets.{family}: bounds must be positive, finite and rising")
    return tuple(float(each) for each in values)
