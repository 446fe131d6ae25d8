"""Reads a trace, row by row: which columns hold what, and each request or what is wrong with its line. Memory stays bounded.

Known are the public traces' own names: Azure (TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT (Timestamp, Request
tokens, Response tokens), Mooncake and Bailian (timestamp, input_length, output_length), and arrival, input_tokens and
output_tokens with a unit at the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Final, Literal, NamedTuple

from tierwright.planning.trace_records import Problem, records

Unit = Literal["s", "ms", "us", "ns"]

UNITS: Final[dict[Unit, float]] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ARRIVAL: Final = ("arrival", "arrived_at", "arrival_time", "timestamp", "time", "offset", "start_time")
_INPUT: Final = (
    "input_tokens",
    "prompt_tokens",
    "contexttokens",
    "request tokens",
    "input_length",
    "num_prefill_tokens",
)
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "generatedtokens",
    "response tokens",
    "output_length",
    "num_decode_tokens",
)
_MOST_TOKENS: Final = 10_000_000
"""Far more than any model takes: a larger number is a wrong column."""
MOST_DISORDER: Final = 65_536
"""Rows by which a row may be late: those are sorted in, a larger disorder is an error."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns; None: one of the known names."""

    arrival: str | None = None
    input: str | None = None
    output: str | None = None
    cached: str | None = None
    """Prompt tokens that a cache serves; None: none are."""
    speed: str | None = None
    """Which tier a request asks for."""
    unit: Unit | None = None
    """Of the arrival; None: by the column's name, else seconds. Dates are known by themselves."""


class Row(NamedTuple):
    """One request of a trace."""

    line: int
    at: float
    """Seconds, since whenever the trace counts from."""
    prompt: int
    """Prompt tokens to compute, at least one."""
    output: int
    """Output tokens, at least one."""
    speed: str


@dataclass(frozen=True, slots=True)
class _Places:
    arrival: int
    input: int
    output: int
    cached: int | None
    speed: int | None
    factor: float
    names: tuple[str, ...]
    dated: bool | None = None
    """Whether arrivals are dates; None: no arrival was seen yet."""


def rows(lines: Iterable[str], columns: Columns) -> Iterator[Row | Problem]:
    """The requests of a trace in the file's order, and a problem for each line that holds none."""
    places: _Places | None = None
    for record in records(lines):
        if isinstance(record, Problem):
            yield record
        elif places is None:
            found = _places(record.fields, columns)
            if isinstance(found, list):
                yield from (Problem(record.line, words) for words in found)
                return
            places = found
        else:
            row = _row(record.line, record.fields, places)
            if places.dated is None and isinstance(row, Row):
                places = replace(places, dated=not _is_number(record.fields[places.arrival]))
            yield row


def in_order(rows: Iterable[Row | Problem]) -> Iterator[Row | Problem]:
    """The rows by arrival, and the problems as they come. A row that is too late to be sorted in is a problem of its own."""
    held: list[Row] = []
    last = float("-inf")
    for row in rows:
        if isinstance(row, Problem):
            yield row
        elif row.at < last:
            yield Problem(
                row.line,
                f"arrives {last - row.at:g} s before a request that stands over {MOST_DISORDER:,} rows earlier; sort the "
                "file by its arrival column",
            )
        else:
            held.append(row)
            if len(held) == 2 * MOST_DISORDER:
                held.sort(key=_arrival)
                last = held[MOST_DISORDER - 1].at
                yield from held[:MOST_DISORDER]
                del held[:MOST_DISORDER]
    held.sort(key=_arrival)
    yield from held


def _arrival(row: Row) -> float:
    return row.at


def _places(header: Sequence[str], columns: Columns) -> _Places | list[str]:
    """Where the columns stand, or what is wrong with the header."""
    names = [name.strip().lstrip("\ufeff") for name in header]
    wrong: list[str] = []

    def place(what: str, flag: str, given: str | None, known: Sequence[str]) -> int:
        for number, name in enumerate(names):
            if name == given or (given is None and _without_unit(name.lower()) in known):
                return number
        looked = f"has no column {given}" if given is not None else f"has no column for {what}"
        wrong.append(f"the header {looked}; it has {', '.join(names)}. Name it by {flag}")
        return 0

    arrival = place("the arrival", "--arrival-column", columns.arrival, _ARRIVAL)
    prompt = place("input tokens", "--input-column", columns.input, _INPUT)
    output = place("output tokens", "--output-column", columns.output, _OUTPUT)
    cached = None if columns.cached is None else place("", "--cached-column", columns.cached, ())
    speed = None if columns.speed is None else place("", "--speed-column", columns.speed, ())
    if wrong:
        return wrong
    factor = UNITS[columns.unit or _unit(names[arrival])]
    return _Places(arrival, prompt, output, cached, speed, factor, tuple(names))


def _unit(name: str) -> Unit:
    ending = name.lower().rpartition("_")[2]
    return next((unit for unit in UNITS if unit == ending), "s")


def _without_unit(name: str) -> str:
    stem, _, ending = name.rpartition("_")
    return stem if ending in UNITS else name


def _row(line: int, fields: Sequence[str], places: _Places) -> Row | Problem:
    """The usual row by the shortest way, since there may be millions; whatever is unusual is looked at with care."""
    if places.cached is None and places.speed is None and not places.dated:
        try:
            at = float(fields[places.arrival]) * places.factor
            prompt, output = int(fields[places.input]), int(fields[places.output])
        except (ValueError, IndexError):
            return _unusual(line, fields, places)
        if 0 <= at < inf and 0 < prompt <= _MOST_TOKENS and 0 < output <= _MOST_TOKENS:
            return Row(line, at, prompt, output, "")
    return _unusual(line, fields, places)


def _unusual(line: int, fields: Sequence[str], places: _Places) -> Row | Problem:
    wrong: list[str] = []

    def text(place: int) -> str:
        return fields[place].strip() if place < len(fields) else ""

    def tokens(place: int) -> int:
        try:
            number = float(text(place))
        except ValueError:
            number = float("nan")
        if not 0 <= number <= _MOST_TOKENS or number % 1:
            wrong.append(f"{places.names[place]} is {_shown(text(place))}; a number of tokens is expected")
            return 0
        return int(number)

    arrival = text(places.arrival)
    at = _seconds(arrival, places.factor)
    if at is None:
        wrong.append(
            f"{places.names[places.arrival]} is {_shown(arrival)}; a time of zero or more is expected, as a number or as a "
            "date such as 2026-11-30 12:00:00.5"
        )
    elif places.dated is not None and places.dated == _is_number(arrival):
        these, those = ("a number", "dates") if places.dated else ("a date", "numbers")
        wrong.append(
            f"{places.names[places.arrival]} is {_shown(arrival)}, {these}, and the lines before hold {those}"
        )
    prompt, output = tokens(places.input), tokens(places.output)
    cached = 0 if places.cached is None else tokens(places.cached)
    speed = "" if places.speed is None else text(places.speed)
    if wrong or at is None:
        return Problem(line, "; ".join(wrong))
    return Row(line, at, max(1, prompt - cached), max(1, output), speed)


def _seconds(text: str, factor: float) -> float | None:
    try:
        number = float(text) * factor
    except ValueError:
        return _date(text)
    return number if isfinite(number) and number >= 0 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _date(text: str) -> float | None:
    """Seconds since 1970; a date without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _shown(text: str) -> str:
    return f"{text[:40]!r}" if text else "missing"
