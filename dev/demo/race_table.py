"""Says how the speeds did: a table, and tokens over time as lines of blocks for a terminal."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from dev.demo.race import Run

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
WIDTH: Final = 60


def table(runs: Mapping[str, Run]) -> str:
    """Tokens per second by kind of prompt, time to first token, accepted drafts, and cache reads, a line for each speed."""
    lines = [
        f"{'speed':<10}{'edit, copy':>12}{'prose':>10}{'TTFT':>9}{'again':>9}{'accepted':>10}{'cache reads':>14}"
    ]
    for name, run in runs.items():
        share = "-" if run.acceptance is None else f"{run.acceptance:.0%}"
        lines.append(
            f"{name:<10}"
            f"{run.tokens_per_second(('edit', 'copy')):>6.1f} tok/s"
            f"{run.tokens_per_second(('prose',)):>10.1f}"
            f"{run.first_token_s * 1000:>6.0f} ms"
            f"{run.again.first_token_s * 1000:>6.0f} ms"
            f"{share:>10}"
            f"{f'{run.again.cached_tokens} of {run.again.prompt_tokens}':>14}"
        )
    return "\n".join(lines)


def points(run: Run) -> tuple[tuple[float, int], ...]:
    """Seconds and output tokens of all answers laid end to end, from zero on."""
    result, clock, count = [(0.0, 0)], 0.0, 0
    for answer in run.answers:
        result += [(clock + seconds, count + tokens) for seconds, tokens in answer.arrivals]
        clock, count = clock + answer.seconds, count + answer.tokens
    return tuple(result)


def strips(runs: Mapping[str, Run]) -> str:
    """A line for each speed: how many tokens came in each part of the time; both lines on one scale."""
    longest = max(points(run)[-1][0] for run in runs.values())
    if longest <= 0:
        return ""
    rates = {name: _per_column(points(run), longest) for name, run in runs.items()}
    most = max(max(columns) for columns in rates.values()) or 1.0
    lines = []
    for name, columns in rates.items():
        bar = "".join(_BLOCKS[min(round(8 * value / most), 8)] for value in columns).rstrip()
        seconds, tokens = points(runs[name])[-1]
        lines.append(f"{name:<10}{bar} {tokens} tokens in {seconds:.1f} s")
    return "\n".join(lines)


def _per_column(track: tuple[tuple[float, int], ...], longest: float) -> list[float]:
    columns = [0.0] * WIDTH
    for (_, before), (seconds, tokens) in pairwise(track):
        columns[min(int(seconds / longest * WIDTH), WIDTH - 1)] += tokens - before
    return columns
