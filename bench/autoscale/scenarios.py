"""Which requests are replayed. Which days are for tuning, for warming up and for the report stands in days.json beside this file."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.traces import DAY, Request, azure_days, read_csv, servegen_days

DAYS: dict[str, Any] = json.loads(Path(__file__).with_name("days.json").read_text("utf-8"))


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


def _servegen(days: dict[str, Any], *, tuning: bool) -> Scenario:
    """A day of ServeGen's m-large after its warm-up. A seed that is asked for beyond the first is added to the day's own."""
    first, last = days["warm_up"], days["scored"]

    def requests(folder: Path, seed: int) -> list[Request]:
        return servegen_days(folder, range(first, last + 1), days["seed"] + seed - 1)

    kind = "tuning" if tuning else "day"
    return Scenario(f"servegen-{kind}-{last}", WHOLE_DAY, requests, tuning, (1, 2, 3, 4, 5))


WHOLE_DAY = Run(A100_8B, initial=4, score_from=DAY)
HOUR = Run(A100_8B, initial=4)
_SERVEGEN = DAYS["servegen-m-large"]

SCENARIOS = (
    *(_servegen(days, tuning=True) for days in _SERVEGEN["training"]),
    Scenario(
        "azure2024-tuning", WHOLE_DAY, lambda f, s: azure_days(f, range(2), 6.0, 16.0, s), True, (1, 2, 3)
    ),
    # The stored day holds clients whose fits are not published, so its warm-up is another mix, with a peak four times its own.
    Scenario("servegen-day8", WHOLE_DAY, _servegen_report, False, (4, 5, 6, 8)),
    *(
        _servegen(days, tuning=False)
        for days in _SERVEGEN["reporting"]
        if days["scored"] != "the stored day 8"
    ),
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
