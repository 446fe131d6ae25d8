"""Writes a value as JSON in one way only, whatever the order of its keys, and gives the digest that tells values apart."""

import hashlib
import json


def canonical_json(value: object) -> str:
    """JSON with sorted keys and without spaces.

    Raises:
        TypeError: the value holds what JSON cannot.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: object) -> str:
    """Sixteen hex digits of the SHA-256 of the value's JSON. They stand in annotations and statuses: never change them."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]
