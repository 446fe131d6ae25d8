"""Durations and quantities: what their patterns let through turns into the number that Kubernetes reads."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright.api import patterns
from tierwright.api.scalars import duration_seconds, quantity_value

LONGEST_SECONDS = (2**63 - 1) / 10**9  # what the API server can hold in a duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("0s", 0),
        ("1m1m", 120),
        ("90000000ms", 90000),
    ],
)
def test_a_duration_is_its_seconds(text: str, seconds: float) -> None:
    assert re.search(patterns.DURATION, text)
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 s", "-5s", "1d", "s", "5sm", "5s\n"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(text)


@given(text=st.from_regex(patterns.DURATION, fullmatch=True))
def test_every_duration_that_passes_fits_into_kubernetes(text: str) -> None:
    assert 0 <= duration_seconds(text.rstrip("\n")) < LONGEST_SECONDS


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("24", 24),
        ("500m", "0.5"),
        ("200Gi", 200 * 2**30),
        ("1.5k", 1500),
        ("2M", 2_000_000),
        ("1Ti", 2**40),
        ("9T", 9 * 10**12),
        ("1Ki", 1024),
        ("3Mi", 3 * 2**20),
        ("1Pi", 2**50),
        ("1G", 10**9),
        ("1P", 10**15),
        ("999999999999P", 2**63 - 1),
    ],
)
def test_a_quantity_is_its_number(text: str, number: object) -> None:
    assert quantity_value(text) == Decimal(str(number))


@pytest.mark.parametrize("text", ["", "5 Gi", "-5", "1e3", "5Gb", "Gi", "5\n"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity_value(text)


@given(text=st.from_regex(patterns.QUANTITY, fullmatch=True))
def test_every_quantity_that_passes_has_a_number(text: str) -> None:
    assert quantity_value(text.rstrip("\n")) >= 0
