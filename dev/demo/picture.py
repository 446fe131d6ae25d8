"""Draws what the demo showed as one SVG: tokens over time of both speeds, and the table of tiers."""

from dataclasses import dataclass, field
from html import escape

from dev.demo.chat import Speed

WIDTH = 940
CHART_TOP, CHART_HEIGHT, LEFT = 64, 190, 70
COLOURS = {"fast": "#0f766e", "standard": "#b45309"}
MONO = "ui-monospace, SFMono-Regular, Menlo, monospace"
SANS = "system-ui, sans-serif"


@dataclass
class Picture:
    """What is drawn: measured speeds, and the printed table."""

    speeds: dict[str, Speed] = field(default_factory=dict)
    table: str = ""

    def svg(self) -> str:
        """The picture as an SVG document."""
        lines = self.table.rstrip().splitlines()
        table_top = CHART_TOP + CHART_HEIGHT + 74
        height = table_top + 20 * len(lines) + 24
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
                f'aria-label="Output tokens over time of a fast and a standard tier">',
                f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#fcfcfb"/>',
                f'<text x="24" y="34" font-family="{SANS}" font-size="17" font-weight="600" fill="#1c1917">'
                "One model, two speeds, the same text</text>",
                f'<text x="24" y="52" font-family="{SANS}" font-size="12" fill="#57534e">'
                "Output tokens of three edit and copy prompts over seconds, as the demo measured them "
                "(simulated engine)</text>",
                *self._chart(),
                *self._table(lines, table_top),
                "</svg>\n",
            ]
        )

    def _chart(self) -> list[str]:
        seconds = max(self._seconds(speed) for speed in self.speeds.values())
        tokens = max(sum(each.tokens for each in speed.answers) for speed in self.speeds.values())
        right = WIDTH - 170
        bottom = CHART_TOP + CHART_HEIGHT
        parts = [f'<path d="M{LEFT},{CHART_TOP} V{bottom} H{right}" fill="none" stroke="#a8a29e"/>']
        for share in (0.5, 1.0):
            y = bottom - CHART_HEIGHT * share
            parts.append(f'<path d="M{LEFT},{y} H{right}" stroke="#e7e5e4"/>')
            parts.append(self._label(LEFT - 8, y + 4, f"{tokens * share:.0f}", "end"))
        parts += [
            self._label(LEFT + (right - LEFT) * share, bottom + 18, f"{seconds * share:.1f} s", "middle")
            for share in (0.0, 0.5, 1.0)
        ]
        for name, speed in self.speeds.items():
            points, clock, count = [(LEFT, bottom)], 0.0, 0
            for answer in speed.answers:
                for step_s, step_tokens in ((answer.first_token_s, 1), (answer.decode_s, answer.tokens - 1)):
                    clock, count = clock + step_s, count + step_tokens
                    x = LEFT + (right - LEFT) * clock / seconds
                    points.append((round(x), round(bottom - CHART_HEIGHT * count / tokens)))
            line = " ".join(f"{x},{y}" for x, y in points)
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>'
            )
            x, y = points[-1]
            parts.append(
                f'<text x="{x + 8}" y="{y + 4}" font-family="{SANS}" font-size="13" font-weight="600" '
                f'fill="{COLOURS[name]}">{name} {speed.tokens_per_second:.0f} tokens/s</text>'
            )
        return parts

    def _table(self, lines: list[str], top: int) -> list[str]:
        parts = [
            f'<rect x="16" y="{top - 24}" width="{WIDTH - 32}" height="{20 * len(lines) + 32}" rx="8" fill="#1c1917"/>'
        ]
        for number, line in enumerate(["$ kubectl get itier", *lines]):
            colour = "#a8a29e" if number < 2 else "#f5f5f4"
            parts.append(
                f'<text x="32" y="{top + 20 * number - 4}" xml:space="preserve" font-family="{MONO}" '
                f'font-size="12" fill="{colour}">{escape(line)}</text>'
            )
        return parts

    @staticmethod
    def _seconds(speed: Speed) -> float:
        return sum(each.first_token_s + each.decode_s for each in speed.answers)

    @staticmethod
    def _label(x: float, y: float, text: str, anchor: str) -> str:
        return (
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-family="{SANS}" font-size="11" '
            f'fill="#57534e">{text}</text>'
        )
