"""The page's table of operations: what each takes in each call, and how that stands to what the machine could do at best."""

from collections.abc import Mapping
from typing import Any

from bench.worker.markdown import markdown


def profile_lines(profile: Mapping[str, Any], best: Mapping[str, Any]) -> list[str]:
    """A line of what is shown, then the table. `best`: the part `machine`'s roofline; empty where it was not measured."""
    cases = profile["cases"]
    names = list(dict.fromkeys(each["name"] for case in cases for each in case["operations"]))
    words = "Milliseconds of one call, operation by operation"
    if best:
        words += (
            "; in brackets how often as long as at best, which is the longer of reading its numbers at "
            f"{_read_rate(best) / 1e9:.1f} GB/s and computing them at {best['operations_per_second'] / 1e9:.0f} GFLOP/s"
        )
    words += (
        f" (median of traced calls; cache of {profile['length']}, steps at position {profile['position']}):"
    )
    head = ["operation", *(case["case"]["name"] for case in cases)]
    rows = [[name, *(_cell(_named(case, name), best) for case in cases)] for name in names]
    rows.append(["all operations", *(_milliseconds(_sum(case)) for case in cases)])
    rows.append(
        ["the whole call, untraced, at its best", *(_milliseconds(case["seconds"]) for case in cases)]
    )
    if best:
        rows.append(["at best", *(_milliseconds(_floors(case, best)) for case in cases)])
    return [words, "", *markdown(head, rows)]


def _named(case: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((each for each in case["operations"] if each["name"] == name), None)


def _cell(operation: Mapping[str, Any] | None, best: Mapping[str, Any]) -> str:
    if operation is None:
        return ""
    floor = _floor(operation, best) if best else 0.0
    return _milliseconds(operation["seconds"]) + (f" ({operation['seconds'] / floor:.1f})" if floor else "")


def _floor(operation: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    """Seconds that an operation takes at least."""
    return max(
        float(operation["bytes"]) / _read_rate(best),
        float(operation["operations"]) / float(best["operations_per_second"]),
    )


def _floors(case: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    return sum(_floor(each, best) for each in case["operations"])


def _read_rate(best: Mapping[str, Any]) -> float:
    """Bytes per second."""
    return 4 * float(best["parameters"]) / float(best["read_seconds"])


def _sum(case: Mapping[str, Any]) -> float:
    return sum(float(each["seconds"]) for each in case["operations"])


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"
