"""Which requests are replayed, and which days are for tuning, for warming up and for the report: fixed here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.traces import DAY, Request, azure_days, read_csv, servegen_days


@dataclass(frozen=True, slots=True)
class Scenario:
    """A trace and how a fleet serves it. Scored from `run.score_from` on; what lies before warms up whoever learns."""

    name: str
    run: Run
    requests: Callable[[Path, int], list[Request]]
    tuning: bool
    statics: tuple[int, ...]


def _servegen_report(folder: Path, seed: int) -> list[Request]:
    """Day 7, drawn anew, then the stored day 8."""
    before = servegen_days(folder, range(7, 8), seed)
    stored = read_csv(folder / "servegen_mlarge_day8_generated.csv.gz")
    return before + [Request(DAY + each.at, each.prompt, each.output) for each in stored]


WHOLE_DAY = Run(A100_8B, initial=4, score_from=DAY)
HOUR = Run(A100_8B, initial=4)

SCENARIOS = (
    # Tuning: other days of the same sources.
    Scenario("servegen-tuning", WHOLE_DAY, lambda f, s: servegen_days(f, range(3, 5), s), True, (2, 3, 4, 5)),
    Scenario(
        "azure2024-tuning", WHOLE_DAY, lambda f, s: azure_days(f, range(2), 6.0, 16.0, s), True, (1, 2, 3)
    ),
    # Report. The stored day lacks nothing of a real one but its biggest clients; the days before it are days 0 to 7.
    Scenario("servegen-day8", WHOLE_DAY, _servegen_report, False, (4, 5, 6, 8)),
    Scenario(
        "azure2024-thursday",
        WHOLE_DAY,
        lambda f, s: azure_days(f, range(3, 5), 20.0, 16.0, s),
        False,
        (3, 4, 5, 6, 7),
    ),
    Scenario(
        "azure2023-code", HOUR, lambda f, _: read_csv(f / "azure2023_code.csv.gz"), False, (4, 6, 8, 10, 12)
    ),
    Scenario("azure2023-conv", HOUR, lambda f, _: read_csv(f / "azure2023_conv.csv.gz"), False, (1, 2, 3)),
)
