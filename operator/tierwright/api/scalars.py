"""Scalar types of the API (durations, quantities, decimals, names) with their bounds, and how they turn into numbers."""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from tierwright.api import patterns
from tierwright.api.markers import IntOrString

_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|Pi|m|k|M|G|T|P)?")
_LARGEST_QUANTITY: Final = Decimal(2**63 - 1)
QUANTITY_FACTORS: Final[Mapping[str, Decimal]] = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
"""What each suffix of a Kubernetes quantity stands for; the API server writes more of them than ``Quantity`` takes."""


def _number_as_text(value: object) -> object:
    """YAML gives ``cpu: 4`` as a number; the API keeps the text form."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


Duration = Annotated[
    str, Field(pattern=patterns.DURATION, min_length=1, max_length=32, examples=["500ms", "5m"])
]
"""A Go duration without signs and with the units ms, s, m, h."""

Quantity = Annotated[
    str,
    Field(pattern=patterns.QUANTITY, max_length=32, examples=["24", "200Gi"]),
    BeforeValidator(_number_as_text),
    IntOrString(maximum=999_999_999_999),
]
"""A Kubernetes quantity, without sign and exponent."""

Fraction = Annotated[str, Field(pattern=patterns.FRACTION, max_length=8, examples=["0.95"])]
"""A quoted decimal from 0 to 1."""

PositiveDecimal = Annotated[str, Field(pattern=patterns.POSITIVE_DECIMAL, max_length=16, examples=["39.3"])]
"""A quoted decimal, zero or more."""

Percentage = Annotated[
    str,
    Field(pattern=patterns.PERCENTAGE, max_length=4, examples=[1, "25%"]),
    BeforeValidator(_number_as_text),
    IntOrString(maximum=9999),
]
"""A count of pods, or a percentage of them."""

ObjectName = Annotated[str, Field(pattern=patterns.OBJECT_NAME, min_length=1, max_length=253)]
"""The name of another Kubernetes object (RFC 1123 subdomain)."""

SecretKey = Annotated[str, Field(pattern=patterns.SECRET_KEY, min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(pattern=patterns.LABEL_VALUE, max_length=63)]


@lru_cache(maxsize=1024)
def duration_seconds(text: str) -> float:
    """Seconds of a duration such as ``1m30s``.

    Raises:
        ValueError: the text is not a duration of the form that ``Duration`` accepts.
    """
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 30s, 5m or 1h30m")
    return float(sum((Decimal(number) * _UNIT_SECONDS[unit] for number, unit in parts), Decimal(0)))


def quantity_value(text: str) -> Decimal:
    """The plain number of a quantity: bytes for ``200Gi``, cores for ``500m``, a count for ``2M``.

    What lies above 2^63 - 1 is that, as in Kubernetes.

    Raises:
        ValueError: the text is not a quantity of the form that ``Quantity`` accepts.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 24, 500m or 200Gi")
    return min(Decimal(match.group(1)) * QUANTITY_FACTORS[match.group(2) or ""], _LARGEST_QUANTITY)
