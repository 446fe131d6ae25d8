"""Reads a trace once, and keeps each tier's requests as records of fixed size in a file, from which every replay streams them.

Memory is bounded whatever the trace's length: a replay reads a block of records at a time.
"""

import gzip
import io
import random
import sys
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

from tierwright.cli.documents import STDIN
from tierwright.planning.case import Case
from tierwright.planning.demand import Demand
from tierwright.planning.engine import Request
from tierwright.planning.trace_records import Problem
from tierwright.planning.trace_rows import Columns, Row, in_order, rows

_BLOCK: Final = 65_536
"""Records that are written and read at once."""
_GZIP: Final = b"\x1f\x8b"
_MOST_PROBLEMS: Final = 20
_LONGEST: Final = 400 * 86_400.0
_MOST_SPEEDS: Final = 10
_LONGEST_LINE: Final = 1_000_000
_SPARSE: Final = 60.0
"""Seconds from one request to the next beyond which the unit of the times is doubted."""


@dataclass(frozen=True)
class Part:
    """One tier's requests."""

    path: Path
    demand: Demand


@dataclass
class Trace:
    """What was read. With errors the parts are not complete."""

    parts: list[Part] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    """From the first arrival to the last."""


@dataclass(frozen=True)
class Shares:
    """Which part of a trace without speeds goes to which tier, drawn anew for each request, the same for the same seed."""

    weights: tuple[float, ...]
    seed: int


def read_trace(
    name: str,
    columns: Columns,
    cases: Sequence[Case],
    shares: Shares | None,
    folder: Path | None,
    tell: Callable[[str], None],
) -> Trace:
    """Read the file (``-``: stdin, also gzipped) into the folder, one part for each case; None: only look for errors.

    With a speed column a request goes to the case of that speed or name; else by the shares, or all to the only case.
    """
    trace = Trace()
    shown = "stdin" if name == STDIN else name
    try:
        with _opened(name) as file, ExitStack() as stack:
            files = [] if folder is None else [folder / f"part-{place}" for place in range(len(cases))]
            writers = [
                stack.enter_context(closing(_Writer(*each))) for each in zip(files, cases, strict=False)
            ]
            _read(file, shown, columns, _route(cases, columns, shares), cases, writers, trace, tell)
    except _LineTooLongError as error:
        trace.errors.append(
            f"{shown}, line {error.line}: is longer than {_LONGEST_LINE:,} characters; one request per line is expected"
        )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        trace.errors.append(f"{shown}: the gzip file is damaged: {error}")
    except OSError as error:
        trace.errors.append(f"{shown}: cannot be read: {error.strerror}")
    return trace


def requests_of(part: Part, told: Callable[[int], None] = lambda _: None) -> Iterator[Request]:
    """The part's requests in order of arrival; `told` hears of each block's length."""
    left = part.demand.requests
    with part.path.open("rb") as file:
        while left:
            count = min(_BLOCK, left)
            at, prompt, output = _blocks()
            for column in (at, prompt, output):
                column.fromfile(file, count)
            yield from map(Request._make, zip(at, prompt, output, strict=True))
            told(count)
            left -= count


def _blocks() -> tuple["array[float]", "array[int]", "array[int]"]:
    return array("d"), array("I"), array("I")


@contextmanager
def _opened(name: str) -> Iterator[io.TextIOWrapper]:
    """The file as text without a byte order mark, unpacked when it is gzipped."""
    with ExitStack() as stack:
        raw = sys.stdin.buffer if name == STDIN else stack.enter_context(Path(name).open("rb"))
        packed = isinstance(raw, io.BufferedReader) and raw.peek(2)[:2] == _GZIP
        plain = gzip.GzipFile(fileobj=raw) if packed else raw
        # What is no UTF-8 is kept as it is: it matters only in a column that is read, where its line can be named.
        yield stack.enter_context(
            io.TextIOWrapper(plain, encoding="utf-8-sig", errors="surrogateescape", newline="")
        )


class _LineTooLongError(Exception):
    """A line that would not fit into memory, or not for long."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _lines(file: io.TextIOWrapper) -> Iterator[str]:
    """The file's lines, the last character of each its end. Raises _LineTooLongError."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE and not line.endswith("\n"):
            raise _LineTooLongError(number)
        yield line


Route = Callable[[Row], int | str]
"""The place of the row's case, or the speed that no case has."""


def _route(cases: Sequence[Case], columns: Columns, shares: Shares | None) -> Route:
    if columns.speed is not None:
        places = {word: place for place, case in enumerate(cases) for word in (case.name, case.speed)}
        return lambda row: places.get(row.speed, row.speed)
    if shares is None:
        return lambda _: 0
    draw = random.Random(shares.seed)  # noqa: S311 - which request goes where is no secret
    total = sum(shares.weights)
    reached = [each / total for each in accumulate(shares.weights)][:-1]
    return lambda _: bisect_right(reached, draw.random())


class _Writer:
    """Appends a tier's requests to its file."""

    def __init__(self, path: Path, case: Case) -> None:
        self.part = Part(path, Demand())
        self._case = case
        self._file = path.open("wb")
        self._columns = _blocks()

    def add(self, request: Request) -> None:
        """One more request, in order of arrival."""
        at, prompt, output = self._columns
        at.append(request.at)
        prompt.append(request.prompt)
        output.append(request.output)
        self.part.demand.add(request, self._case)
        if len(at) == _BLOCK:
            self._write()

    def close(self) -> None:
        """Write what is left."""
        self._write()
        self._file.close()

    def _write(self) -> None:
        for column in self._columns:
            column.tofile(self._file)
        self._columns = _blocks()


def _read(
    file: io.TextIOWrapper,
    shown: str,
    columns: Columns,
    route: Route,
    cases: Sequence[Case],
    writers: Sequence[_Writer],
    trace: Trace,
    tell: Callable[[str], None],
) -> None:
    unknown: Counter[str] = Counter()
    problems = count = 0
    begin: float | None = None
    for row in in_order(rows(_lines(file), columns)):
        if isinstance(row, Problem):
            problems += 1
            if problems <= _MOST_PROBLEMS:
                trace.errors.append(f"{shown}, line {row.line}: {row.words}")
            continue
        count += 1
        if count % _BLOCK == 0:
            tell(f"reading {shown}: {count:,} requests")
        begin = row.at if begin is None else begin
        trace.seconds = row.at - begin
        if problems or not writers:
            continue
        place = route(row)
        if isinstance(place, int):
            writers[place].add(Request(row.at - begin, row.prompt, row.output))
        else:
            known = place if place in unknown or len(unknown) < _MOST_SPEEDS else "others"
            unknown[known] += 1
    trace.parts = [writer.part for writer in writers]
    trace.requests = sum(part.demand.requests for part in trace.parts)
    if problems > _MOST_PROBLEMS:
        trace.errors.append(f"{shown}: {problems - _MOST_PROBLEMS:,} more lines are wrong")
    elif not problems:
        trace.errors += _unusable(shown, count, trace, unknown, cases)
        if columns.unit is None and trace.seconds > _SPARSE * max(count, 10):
            trace.warnings.append(
                f"{shown}: {count:,} requests in {trace.seconds / 86_400:,.1f} days are fewer than one a minute; if its times "
                "are not seconds, say their unit by --time-unit"
            )
        trace.warnings += [
            f"{shown}: {number:,} requests ask for {speed or 'no speed'!r}, which no tier has, and were left out"
            for speed, number in unknown.items()
        ]


def _unusable(
    shown: str, count: int, trace: Trace, unknown: Mapping[str, int], cases: Sequence[Case]
) -> Iterator[str]:
    if not count:
        yield f"{shown}: holds no request; one per line is expected below the header"
    elif trace.seconds > _LONGEST:
        yield (
            f"{shown}: spans {trace.seconds / 86_400:,.0f} days, more than the {_LONGEST / 86_400:.0f} that can be "
            "planned for; say the unit of its times by --time-unit"
        )
    for case, part in zip(cases, trace.parts, strict=False):
        if count and not part.demand.requests:
            asked = f"; they ask for {', '.join(map(repr, unknown))}" if unknown else ""
            yield f"{shown}: no request goes to {case.name} (speed {case.speed}){asked}"
