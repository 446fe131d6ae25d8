"""Reads from an engine's metrics page (Prometheus text, vLLM's names) the few families that the autoscaler needs, and nothing else.

A page of vLLM is 55 kB long and nine lines in ten are not wanted, so one regular expression finds the wanted lines and
only those are looked at. What is missing, malformed or not a number is left out and told as a fault; it is never zero.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from tierwright.observe.histogram import Histogram, Totals, added

MAX_PAGE: Final = 4 * 1024 * 1024
"""Longest page that is read, in characters; a page of vLLM 0.32 has 55,000."""
MAX_LINES: Final = 20_000
"""Most wanted lines that are read; a page of vLLM 0.32 has about 130."""

_GAUGES: Final[Mapping[str, tuple[str, ...]]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "process_start": ("process_start_time_seconds",),
}
_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "finished": ("vllm:request_success_total", "vllm:request_success"),
    "rejected": ("vllm:admission_rejections_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "cached_tokens": ("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total"),
    "output_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
}
_TOTALS: Final[Mapping[str, tuple[str, ...]]] = {
    "inter_token": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    "steps": ("vllm:iteration_tokens_total",),
}
_HISTOGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "first_token": ("vllm:time_to_first_token_seconds",),
    "per_output_token": ("vllm:request_time_per_output_token_seconds",),
}
_CACHE_INFO: Final = "vllm:cache_config_info"
OPTIONAL: Final = frozenset({"rejected", "cached_tokens", "process_start", "kv_tokens"})
"""Figures that many engines do not publish; their absence is no fault."""


def _wanted() -> re.Pattern[str]:
    """A line of a wanted family: name, labels with their braces, and the rest, which holds value and timestamp."""
    plain = [name for table in (_GAUGES, _COUNTERS) for names in table.values() for name in names]
    summed = [name + end for names in _TOTALS.values() for name in names for end in ("_sum", "_count")]
    full = [
        name + end
        for names in _HISTOGRAMS.values()
        for name in names
        for end in ("_sum", "_count", "_bucket")
    ]
    words = "|".join(re.escape(name) for name in (*plain, *summed, *full, _CACHE_INFO))
    return re.compile(rf"\n[ \t]*({words})(?![\w:])[ \t]*(\{{.*\}})?(.*)")


_LINE: Final = _wanted()
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)', re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}
_Found = dict[str, list[tuple[str, float]]]


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


class PageRefused(ValueError):
    """The page is longer than any engine's: not a metrics page, or a label that grows without end."""


def parse(text: str) -> MetricsPage:
    """Read a page. Raises PageRefused when it is too long; whatever else is wrong becomes a fault."""
    if len(text) > MAX_PAGE:
        raise PageRefused(f"the metrics page has {len(text):,} characters; at most {MAX_PAGE:,} are read")
    faults: dict[Fault, None] = {}
    found = _collect(text, faults)
    values: dict[str, float | None] = {}
    for field, names in _GAUGES.items():
        values[field] = _total(field, _first(found, names), faults)
    for field, names in _COUNTERS.items():
        values[field] = _total(field, _first(found, names), faults)
    if values["kv_usage"] is not None:
        values["kv_usage"] /= len(_first(found, _GAUGES["kv_usage"]))
    totals = {field: _totals(field, found, names, faults) for field, names in _TOTALS.items()}
    histograms = {field: _histogram(field, found, names, faults) for field, names in _HISTOGRAMS.items()}
    kv_tokens = _kv_tokens(found.get(_CACHE_INFO, []))
    everything = {**values, **totals, **histograms}
    blamed = {fault.family for fault in faults}
    for field, value in everything.items():
        if value is None and field not in OPTIONAL and field not in blamed:
            faults[Fault(FaultKind.MISSING, field)] = None
    return MetricsPage(**values, **totals, **histograms, kv_tokens=kv_tokens, faults=tuple(faults))


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


def _collect(text: str, faults: dict[Fault, None]) -> _Found:
    found: _Found = {}
    lines = 0
    for name, labels, rest in _LINE.findall("\n" + text):
        lines += 1
        if lines > MAX_LINES:
            raise PageRefused(
                f"the metrics page has more than {MAX_LINES:,} lines of the families that are read"
            )
        try:
            value = _value(rest)
        except ValueError:
            faults[Fault(FaultKind.MALFORMED, name)] = None
            continue
        if _series(labels) is None:
            faults[Fault(FaultKind.MALFORMED, name)] = None
            continue
        found.setdefault(name, []).append((labels, value))
    return found


def _first(found: _Found, names: Iterable[str]) -> list[tuple[str, float]]:
    """The lines of the first name that the page knows: later names are those of older engines."""
    return next((found[name] for name in names if name in found), [])


def _total(field: str, lines: list[tuple[str, float]], faults: dict[Fault, None]) -> float | None:
    if not lines:
        return None
    total = math.fsum(value for _, value in lines) if _finite(lines) else math.nan
    if not (math.isfinite(total) and all(value >= 0 for _, value in lines)):
        faults[Fault(FaultKind.NOT_A_NUMBER, field)] = None
        return None
    return total


def _finite(lines: list[tuple[str, float]]) -> bool:
    return all(math.isfinite(value) for _, value in lines)


def _totals(field: str, found: _Found, names: Iterable[str], faults: dict[Fault, None]) -> Totals | None:
    for name in names:
        if f"{name}_count" in found or f"{name}_sum" in found:
            seconds = _total(field, found.get(f"{name}_sum", []), faults)
            count = _total(field, found.get(f"{name}_count", []), faults)
            return None if seconds is None or count is None else Totals(seconds, count)
    return None


def _histogram(
    field: str, found: _Found, names: Iterable[str], faults: dict[Fault, None]
) -> Histogram | None:
    totals = _totals(field, found, names, faults)
    lines = _first(found, [f"{name}_bucket" for name in names])
    if totals is None or not lines:
        return None
    if not _finite(lines):
        faults[Fault(FaultKind.NOT_A_NUMBER, field)] = None
        return None
    by_series: dict[str, list[tuple[float, float]]] = {}
    for labels, value in lines:
        series = _series(labels)
        if series is None or series[1] is None:
            faults[Fault(FaultKind.MALFORMED, field)] = None
            return None
        by_series.setdefault(series[0], []).append((series[1], value))
    histogram = added(by_series.values(), totals)
    if histogram is None:
        faults[Fault(FaultKind.INCONSISTENT, field)] = None
    return histogram


def _kv_tokens(lines: list[tuple[str, float]]) -> float | None:
    """Blocks times block size, which vLLM tells as labels; None where they are no numbers ("None" before profiling)."""
    total = 0.0
    for text, _ in lines:
        labels = labels_of(text) or {}
        try:
            total += _number(labels["num_gpu_blocks"]) * _number(labels["block_size"])
        except (KeyError, ValueError):
            return None
    return total if math.isfinite(total) and total > 0 else None
