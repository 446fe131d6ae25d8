"""Draws the race as one SVG: tokens over time of both speeds, measured, and the tables that the demo printed."""

from collections.abc import Mapping
from html import escape
from typing import Final

from dev.demo.race import Run
from dev.demo.race_table import points

_WIDTH: Final = 940
_TOP: Final = 64
_HEIGHT: Final = 190
_LEFT: Final = 70
_RIGHT: Final = _WIDTH - 190
_BOTTOM: Final = _TOP + _HEIGHT
_COLOURS: Final = {"fast": "#0f766e", "standard": "#b45309"}
_MONO: Final = "ui-monospace, SFMono-Regular, Menlo, monospace"
_SANS: Final = "system-ui, sans-serif"


def svg(runs: Mapping[str, Run], tables: str) -> str:
    """The picture as an SVG document; `tables` stand below the curves as they were printed."""
    lines = tables.rstrip().splitlines()
    table_top = _BOTTOM + 74
    height = table_top + 20 * len(lines) + 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            'aria-label="Output tokens over time of a fast and a standard tier">',
            f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="#fcfcfb"/>',
            f'<text x="24" y="34" font-family="{_SANS}" font-size="17" font-weight="600" fill="#1c1917">'
            "One model, two speeds, the same text</text>",
            f'<text x="24" y="52" font-family="{_SANS}" font-size="12" fill="#57534e">'
            "Output tokens over seconds of SmolLM2-135M-Instruct in two tiers on CPU: an edit, two copies, then prose; "
            "one request at a time</text>",
            *_axes(runs),
            *(part for name, run in runs.items() for part in _curve(runs, name, run)),
            *_text_box(lines, table_top),
            "</svg>\n",
        ]
    )


def _scale(runs: Mapping[str, Run]) -> tuple[float, int]:
    ends = [points(run)[-1] for run in runs.values()]
    return max(seconds for seconds, _ in ends) or 1.0, max(tokens for _, tokens in ends) or 1


def _axes(runs: Mapping[str, Run]) -> list[str]:
    seconds, tokens = _scale(runs)
    parts = [f'<path d="M{_LEFT},{_TOP} V{_BOTTOM} H{_RIGHT}" fill="none" stroke="#a8a29e"/>']
    for share in (0.5, 1.0):
        y = _BOTTOM - _HEIGHT * share
        parts.append(f'<path d="M{_LEFT},{y:.0f} H{_RIGHT}" stroke="#e7e5e4"/>')
        parts.append(_label(_LEFT - 8, y + 4, f"{tokens * share:.0f}", "end"))
    for share in (0.0, 0.5, 1.0):
        x = _LEFT + (_RIGHT - _LEFT) * share
        parts.append(_label(x, _BOTTOM + 18, f"{seconds * share:.1f} s", "middle"))
    return parts


def _curve(runs: Mapping[str, Run], name: str, run: Run) -> list[str]:
    seconds, tokens = _scale(runs)
    track = [
        (_LEFT + (_RIGHT - _LEFT) * at / seconds, _BOTTOM - _HEIGHT * count / tokens)
        for at, count in points(run)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in track)
    x, y = track[-1]
    colour = _COLOURS[name]
    return [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"/>',
        f'<text x="{x + 8:.0f}" y="{y + 4:.0f}" font-family="{_SANS}" font-size="13" font-weight="600" '
        f'fill="{colour}">{name} {run.tokens_per_second():.0f} tokens/s</text>',
    ]


def _text_box(lines: list[str], top: int) -> list[str]:
    height = 20 * len(lines) + 12
    parts = [f'<rect x="16" y="{top - 24}" width="{_WIDTH - 32}" height="{height}" rx="8" fill="#1c1917"/>']
    for number, line in enumerate(lines):
        parts.append(
            f'<text x="32" y="{top + 20 * number - 4}" xml:space="preserve" font-family="{_MONO}" '
            f'font-size="12" fill="#f5f5f4">{escape(line)}</text>'
        )
    return parts


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-family="{_SANS}" font-size="11" '
        f'fill="#57534e">{text}</text>'
    )
