"""Reads from an engine's metrics page (Prometheus text, vLLM's names) the few families that the autoscaler needs.

A page of vLLM is 55 kB long and nine lines in ten are not wanted, so one regular expression finds the wanted lines and
only those are looked at. What is missing, malformed or not a number is left out and told as a fault; it is never zero.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from tierwright.observe import metric_names as names
from tierwright.observe.histogram import Histogram, Totals, added

MAX_PAGE: Final = 4 * 1024 * 1024
"""Longest page that is read, in characters; a page of vLLM 0.32 has 55,000."""
MAX_LINES: Final = 20_000
"""Most wanted lines that are read; a page of vLLM 0.32 has about 130."""

# A line of a wanted family: name, labels with their braces, and the rest, which holds value and timestamp.
_LINE: Final = re.compile(rf"\n[ \t]*({'|'.join(map(re.escape, names.ALL))})(?![\w:])[ \t]*(\{{.*\}})?(.*)")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)', re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}


class FaultKind(StrEnum):
    """What is wrong with a family."""

    MISSING = "Missing"
    MALFORMED = "Malformed"
    NOT_A_NUMBER = "NotANumber"
    INCONSISTENT = "Inconsistent"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that could not be read; `family` is the field of `MetricsPage` or the name on the page."""

    kind: FaultKind
    family: str


@dataclass(frozen=True, slots=True)
class Exactness:
    """How far an engine's answers are those of plain decoding, by its own measurement."""

    row_exact: bool
    """Whether every step shape gave the same bits, so that speculation changes no greedy answer."""
    agreement: float
    """Share of plain decoding's greedy tokens that wider steps gave as well, 0 to 1."""
    lossy: str = ""
    """The rule by which drafts pass that are not the model's own choice; empty: none do."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One page of one pod, summed over its engines and models. None: not published, or not to be believed."""

    running: float | None
    """Requests in the batch."""
    waiting: float | None
    """Requests in the engine's queue."""
    kv_usage: float | None
    """Share of the KV cache in use, 0 to 1, mean over the pod's engines."""
    process_start: float | None
    """When the engine's process started, seconds since 1970."""
    kv_tokens: float | None
    """Tokens that fit into the KV caches of the pod's engines."""
    finished: float | None
    """Requests that ended, whatever the reason."""
    rejected: float | None
    """Requests that the engine refused."""
    prompt_tokens: float | None
    """Prompt tokens, cached ones included."""
    cached_tokens: float | None
    """Prompt tokens that a cache served."""
    output_tokens: float | None
    """Tokens generated."""
    inter_token: Totals | None
    """Seconds between two tokens of a request, over all tokens."""
    steps: Totals | None
    """Tokens of an engine step (`sum`) over all steps (`count`)."""
    first_token: Histogram | None
    """Seconds from arrival to first token, over requests."""
    per_output_token: Histogram | None
    """Mean seconds per output token of a request, over finished requests."""
    faults: tuple[Fault, ...] = ()
    exactness: Exactness | None = None
    """Of the JAX worker; other engines do not tell."""


class PageRefusedError(ValueError):
    """The page is longer than any engine's: not a metrics page, or a label that grows without end."""


def parse(text: str) -> MetricsPage:
    """Read a page. Raises PageRefusedError when it is too long; whatever else is wrong becomes a fault."""
    if len(text) > MAX_PAGE:
        raise PageRefusedError(
            f"the metrics page has {len(text):,} characters; at most {MAX_PAGE:,} are read"
        )
    reader = _Reader(text)
    return MetricsPage(
        running=reader.total("running", names.RUNNING),
        waiting=reader.total("waiting", names.WAITING),
        kv_usage=reader.mean("kv_usage", names.KV_USAGE),
        process_start=reader.total("process_start", names.PROCESS_START, optional=True),
        kv_tokens=reader.kv_tokens(),
        finished=reader.total("finished", names.FINISHED),
        rejected=reader.total("rejected", names.REJECTED, optional=True),
        prompt_tokens=reader.total("prompt_tokens", names.PROMPT_TOKENS),
        cached_tokens=reader.total("cached_tokens", names.CACHED_TOKENS, optional=True),
        output_tokens=reader.total("output_tokens", names.OUTPUT_TOKENS),
        inter_token=reader.totals("inter_token", names.INTER_TOKEN),
        steps=reader.totals("steps", names.STEPS),
        first_token=reader.histogram("first_token", names.FIRST_TOKEN),
        per_output_token=reader.histogram("per_output_token", names.PER_OUTPUT_TOKEN),
        faults=tuple(reader.faults),
        exactness=reader.exactness(),
    )


def labels_of(text: str) -> Mapping[str, str] | None:
    """The labels between braces, unescaped; None when they are malformed."""
    labels: dict[str, str] = {}
    inner = text[1:-1].strip(" \t")
    position = 0
    while position < len(inner):
        match = _LABEL.match(inner, position)
        if match is None or match[1] in labels:
            return None
        labels[match[1]] = _ESCAPE.sub(lambda escape: _UNESCAPED.get(escape[1], escape[0]), match[2])
        position = match.end()
    return labels


@lru_cache(maxsize=4096)
def _series(text: str) -> tuple[str, float | None] | None:
    """(labels without le, le) of the labels between braces; None when malformed. The same texts come at each scrape."""
    labels = labels_of(text) if text else {}
    if labels is None:
        return None
    others = {name: value for name, value in labels.items() if name != "le"}
    bound = labels.get("le")
    if bound is None:
        return repr(others), None
    try:
        return repr(others), _number(bound)
    except ValueError:
        return None


def _number(text: str) -> float:
    """A value of the format; float() alone would also take 1_000."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _value(rest: str) -> float:
    """The value of a line, whose timestamp is read and left out. Raises ValueError."""
    try:
        return _number(rest)
    except ValueError:
        value, timestamp = rest.split()
        _number(timestamp)
        return _number(value)


class _Reader:
    """The wanted lines of one page by name, and what was wrong with them."""

    def __init__(self, text: str) -> None:
        self.faults: dict[Fault, None] = {}
        self._found: dict[str, list[tuple[str, float]]] = {}
        lines = _LINE.findall("\n" + text)
        if len(lines) > MAX_LINES:
            raise PageRefusedError(
                f"the metrics page has {len(lines):,} lines of the families that are read; at most {MAX_LINES:,}"
            )
        broken = set()
        for name, labels, rest in lines:
            try:
                value = _value(rest)
            except ValueError:
                broken.add(name)
                continue
            if _series(labels) is None:
                broken.add(name)
            else:
                self._found.setdefault(name, []).append((labels, value))
        for name in sorted(broken):
            # A sum over the rest would fall, and a counter that falls looks like a restart.
            self._blame(FaultKind.MALFORMED, name)
            self._found.pop(name, None)

    def total(self, field: str, spellings: Sequence[str], *, optional: bool = False) -> float | None:
        """The sum over the series of one family."""
        lines = self._first(spellings)
        if not lines:
            if not optional:
                self._blame(FaultKind.MISSING, field)
            return None
        total = sum(value for _, value in lines) if _counts(lines) else math.nan
        if not math.isfinite(total):
            self._blame(FaultKind.NOT_A_NUMBER, field)
            return None
        return total

    def mean(self, field: str, spellings: Sequence[str]) -> float | None:
        """The mean over the series of one family."""
        total = self.total(field, spellings)
        return None if total is None else total / len(self._first(spellings))

    def totals(self, field: str, spellings: Sequence[str]) -> Totals | None:
        """Sum and count of a histogram."""
        name = next((name for name in spellings if f"{name}_count" in self._found), spellings[0])
        total, count = self.total(field, (f"{name}_sum",)), self.total(field, (f"{name}_count",))
        return None if total is None or count is None else Totals(total, count)

    def histogram(self, field: str, spellings: Sequence[str]) -> Histogram | None:
        """A whole histogram."""
        totals = self.totals(field, spellings)
        if totals is None:
            return None
        lines = self._first([f"{name}_bucket" for name in spellings])
        if not _counts(lines):
            self._blame(FaultKind.NOT_A_NUMBER, field)
            return None
        by_series: dict[str, list[tuple[float, float]]] = {}
        for labels, value in lines:
            series = _series(labels)
            if series is None or series[1] is None:
                self._blame(FaultKind.MALFORMED, field)
                return None
            by_series.setdefault(series[0], []).append((series[1], value))
        histogram = added(by_series.values(), totals)
        if histogram is None:
            self._blame(FaultKind.INCONSISTENT, field)
        return histogram

    def kv_tokens(self) -> float | None:
        """Blocks times block size, which vLLM tells as labels; None where they are no numbers (before profiling)."""
        total = 0.0
        for text, _ in self._found.get(names.CACHE_INFO, []):
            labels = labels_of(text) or {}
            try:
                total += _number(labels["num_gpu_blocks"]) * _number(labels["block_size"])
            except (KeyError, ValueError):
                return None
        return total if 0 < total < math.inf else None

    def exactness(self) -> Exactness | None:
        """What the JAX worker says of its answers; the least of several series. None where a part is missing or no share."""
        shares = [self._found.get(name, []) for name in (names.ROW_EXACT, names.STEP_AGREEMENT)]
        if not all(lines and all(0 <= value <= 1 for _, value in lines) for lines in shares):
            return None
        exact, agreement = (min(value for _, value in lines) for lines in shares)
        rules = {
            (labels_of(text) or {}).get("lossy", "none")
            for text, _ in self._found.get(names.SPECULATION_INFO, [])
        }
        return Exactness(exact == 1, agreement, "; ".join(sorted(rules - {"none"})))

    def _first(self, spellings: Sequence[str]) -> list[tuple[str, float]]:
        return next((self._found[name] for name in spellings if name in self._found), [])

    def _blame(self, kind: FaultKind, family: str) -> None:
        self.faults[Fault(kind, family)] = None


def _counts(lines: Sequence[tuple[str, float]]) -> bool:
    """Whether every value is finite and not negative."""
    return all(0 <= value <= sys.float_info.max for _, value in lines)
