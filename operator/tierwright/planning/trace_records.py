"""Splits a trace into the fields of its lines: a CSV with a header, or JSON Lines with an object of a request each."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

_UNREADABLE: Final = re.compile("[\x00\udc80-\udcff]")
"""Bytes that are no UTF-8, as they are kept so that the line that holds them can be named, and what no text holds."""
_OTHER_MARKS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}


class Record(NamedTuple):
    """The fields of one line; of the header, their names."""

    line: int
    fields: Sequence[str]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one line, and what to do."""

    line: int
    words: str


def records(lines: Iterable[str]) -> Iterator[Record | Problem]:
    """The header first, then each line that is not empty. Nothing follows a header that is none."""
    feed = iter(lines)
    empty = 0
    for first in feed:
        if not first.strip("\ufeff \t\r\n"):
            empty += 1
            continue
        whole = chain([first], feed)
        json_lines = first.lstrip("\ufeff \t").startswith("{")
        yield from _of_json_lines(whole, empty) if json_lines else _of_csv(whole, empty)
        return
    yield Problem(1, "the file is empty; a header and one request per line are expected")


def _of_csv(lines: Iterable[str], before: int) -> Iterator[Record | Problem]:
    reader = csv.reader(lines)
    header = True
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            yield Problem(before + reader.line_num, f"cannot be read as CSV: {error}")
            if header:
                return
            continue
        if fields is None:
            return
        if header and (wrong := _wrong_header(fields)):
            yield Problem(before + reader.line_num, wrong)
            return
        if fields:
            yield Record(before + reader.line_num, fields)
            header = False


def _wrong_header(fields: Sequence[str]) -> str:
    if any(_UNREADABLE.search(name) for name in fields):
        return "is no UTF-8 text; a CSV is expected, plain or gzipped"
    marks = [mark for mark in _OTHER_MARKS if len(fields) == 1 and mark in fields[0]]
    if not marks:
        return ""
    return (
        f"the header's columns are separated by {_OTHER_MARKS[marks[0]]}; write commas, as in "
        "arrival_s,input_tokens,output_tokens"
    )


def _of_json_lines(lines: Iterable[str], before: int) -> Iterator[Record | Problem]:
    names: tuple[str, ...] = ()
    for line, text in enumerate(lines, before + 1):
        if not text.strip():
            continue
        try:
            found: Any = json.loads(text.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:
            yield Problem(line, f"cannot be read as JSON: {getattr(error, 'msg', 'nested too deeply')}")
            found = None
        else:
            if not isinstance(found, dict):
                yield Problem(line, "is no JSON object; one request per line is expected")
                found = None
        if found is None:
            if not names:
                return
            continue
        if not names:
            names = tuple(found)
            yield Record(line, names)
        yield Record(line, [_text(found.get(name)) for name in names])


def _text(value: object) -> str:
    """What a cell of a CSV would hold; nothing for null and for what is no single value, such as the hashes of a prompt."""
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, list | dict) else str(value)
