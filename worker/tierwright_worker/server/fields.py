"""Reads the fields of a JSON body, refusing what has the wrong type or range with the field's name."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tierwright_worker.server.errors import ApiError, bad_request
from tierwright_worker.server.json_size import MOST_VALUES, has_too_many_values

LARGEST_COUNT = 2**31 - 1


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; ApiError 400 for anything else, NaN, lone surrogates and invalid UTF-8 included; 413 for
    more values than are read.
    """
    if has_too_many_values(body):
        raise ApiError(
            413,
            f"the request body holds more than {MOST_VALUES:,} values (an object counts as four); send fewer, or longer texts",
        )
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the request body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("the request body must be a JSON object")
    return document


class Fields:
    """The fields of one object; `where` is its path in the body, for messages. A null counts as absent."""

    def __init__(self, document: Mapping[str, Any], where: str = "") -> None:
        self.document = document
        self.where = where

    def path(self, name: str) -> str:
        """A field's path from the top of the body."""
        return f"{self.where}.{name}" if self.where else name

    def get(self, name: str) -> Any:
        """A field as it stands, None when absent."""
        return self.document.get(name)

    def has(self, name: str) -> bool:
        """Whether a field is given and not null."""
        return self.document.get(name) is not None

    def integer(
        self, name: str, default: int, *, at_least: int | None = None, at_most: int = LARGEST_COUNT
    ) -> int:
        """A whole number within bounds."""
        found = self.optional_integer(name, at_least=at_least, at_most=at_most)
        return default if found is None else found

    def optional_integer(
        self, name: str, *, at_least: int | None = None, at_most: int = LARGEST_COUNT
    ) -> int | None:
        """A whole number within bounds, None when absent."""
        value = self.get(name)
        if value is None:
            return None
        # 5.0 is a whole number to JSON; clients of some languages write it so.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_request(f"{self.path(name)} must be an integer, got {_shown(value)}", self.path(name))
        if at_least is not None and value < at_least:
            raise bad_request(f"{self.path(name)} must be at least {at_least}, got {value}", self.path(name))
        if value > at_most:
            raise bad_request(f"{self.path(name)} must be at most {at_most}, got {value}", self.path(name))
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise bad_request(f"{self.path(name)} must be a number, got {_shown(value)}", self.path(name))
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad_request(
                f"{self.path(name)} must be true or false, got {_shown(value)}", self.path(name)
            )
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without a default it must be given."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise bad_request(f"{self.path(name)} must be a string, got {_shown(value)}", self.path(name))
        return value

    def texts(self, name: str, *, most: int, longest: int) -> tuple[str, ...]:
        """A non-empty string or a list of at most `most`, each of at most `longest` characters; () when absent."""
        value = self.get(name)
        entries = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
            raise bad_request(
                f"{self.path(name)} must be a non-empty string or a list of them", self.path(name)
            )
        self.bound(name, len(entries), most)
        if any(len(entry) > longest for entry in entries):
            raise bad_request(
                f"{self.path(name)}: at most {longest} characters are allowed in each", self.path(name)
            )
        return tuple(entries)

    def bound(self, name: str, entries: int, most: int) -> None:
        """Refuse more entries than `most`: what is looked at for every token would take its time from everyone."""
        if entries > most:
            raise bad_request(
                f"{self.path(name)}: at most {most} entries are allowed, got {entries}", self.path(name)
            )

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers that are not negative; () when absent."""
        value = [] if self.get(name) is None else self.get(name)
        if not isinstance(value, list) or not all(is_token(entry) for entry in value):
            raise bad_request(f"{self.path(name)} must be a list of token ids", self.path(name))
        return tuple(value)

    def object(self, name: str) -> "Fields":
        """An object; an empty one when absent."""
        value = {} if self.get(name) is None else self.get(name)
        if not isinstance(value, dict):
            raise bad_request(f"{self.path(name)} must be an object, got {_shown(value)}", self.path(name))
        return Fields(value, self.path(name))

    def objects(self, name: str) -> "tuple[Fields, ...]":
        """A list of objects; () when absent."""
        value = [] if self.get(name) is None else self.get(name)
        if not isinstance(value, list):
            raise bad_request(f"{self.path(name)} must be a list, got {_shown(value)}", self.path(name))
        for place, entry in enumerate(value):
            if not isinstance(entry, dict):
                where = f"{self.path(name)}[{place}]"
                raise bad_request(f"{where} must be an object, got {_shown(entry)}", where)
        return tuple(Fields(entry, f"{self.path(name)}[{place}]") for place, entry in enumerate(value))

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Refuse fields that would change the answer and cannot be honoured; false, null and empty ones pass."""
        for name in names:
            if self.get(name):
                raise bad_request(f"{self.path(name)} {why}", self.path(name))


def is_token(value: object) -> bool:
    """Whether a JSON value can be a token id."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
