"""Which requests are replayed. Which days are for tuning, for warming up and for the report stands in days.json beside this file."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench.autoscale.cheap import A100_8B, H100_8B, Run
from bench.autoscale.synthetic import Load, burst, drawn, on_and_off, ramp, square, step
from bench.autoscale.traces import (
    DAY,
    Request,
    azure_days,
    deepseek_day,
    mooncake_hour,
    read_csv,
    servegen_days,
)

DAYS: dict[str, Any] = json.loads(Path(__file__).with_name("days.json").read_text("utf-8"))

Kind = Literal["day", "hour", "shape", "fault"]
"""A whole day; an hour of a real service; a made-up load; a made-up load on which something fails."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A trace and how a fleet serves it. Scored from `run.score_from` on; what lies before warms up whoever learns."""

    name: str
    run: Run
    requests: Callable[[Path, int], list[Request]]
    tuning: bool
    statics: tuple[int, ...]
    kind: Kind = "day"


WHOLE_DAY = Run(A100_8B, initial=4, score_from=DAY)
HOUR = Run(A100_8B, initial=4)
_SERVEGEN, _AZURE = DAYS["servegen-m-large"], DAYS["azure-2024-chat"]
_DISPERSION = 16.0
"""Index of dispersion per minute of the chat hour of 2023."""


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


def _threefold(days: dict[str, Any]) -> Scenario:
    """A day with three times its clients, for an engine that is about three times as fast."""
    first, last = days["warm_up"], days["scored"]

    def requests(folder: Path, seed: int) -> list[Request]:
        copies = (
            servegen_days(folder, range(first, last + 1), days["seed"] + seed - 1 + 1000 * copy)
            for copy in range(3)
        )
        return sorted((each for copy in copies for each in copy), key=lambda each: each.at)

    run = replace(WHOLE_DAY, hardware=H100_8B)
    return Scenario(f"servegen-day-{last}-x3", run, requests, False, (1, 2, 3, 4))


def _azure(name: str, days: dict[str, Any], *, tuning: bool, statics: tuple[int, ...]) -> Scenario:
    """A day of the chat week of 2024 after its warm-up, scaled so that the week has the given mean rate."""
    span, rate = range(days["warm_up"], days["scored"] + 1), days["requests_per_second"]

    def requests(folder: Path, seed: int) -> list[Request]:
        return azure_days(folder, span, rate, _DISPERSION, days["seed"] + seed - 1)

    return Scenario(name, WHOLE_DAY, requests, tuning, statics)


def _csv(name: str, statics: tuple[int, ...]) -> Scenario:
    file = f"{name.replace('-', '_')}.csv.gz"
    return Scenario(name, HOUR, lambda folder, _: read_csv(folder / file), False, statics, "hour")


def _made(name: str, load: Load, statics: tuple[int, ...], run: Run = HOUR, kind: Kind = "shape") -> Scenario:
    return Scenario(name, run, lambda folder, seed: drawn(load, folder, seed), False, statics, kind)


STEP = step(low=8.0, factor=3.0, before=3600.0, high_for=3600.0, after=1800.0)
RAMP = ramp(low=4.0, high=24.0, rest=1200.0, slope=3600.0)
SQUARE = square(low=8.0, high=24.0, half=1200.0, periods=5)
BURST = burst(base=8.0, factor=10.0, at=3600.0, lasting=60.0, seconds=7200.0)
ON_AND_OFF = on_and_off(rate=16.0, on=1200.0, off=2400.0, periods=4)

_SIZES = (2, 3, 4, 5, 6)

SCENARIOS = (
    *(_servegen(days, tuning=True) for days in _SERVEGEN["training"]),
    _azure("azure2024-tuning", _AZURE["training"][0], tuning=True, statics=(1, 2, 3)),
    # The stored day holds clients whose fits are not published, so its warm-up is another mix, with a peak four times its own.
    Scenario("servegen-day8", WHOLE_DAY, _servegen_report, False, (4, 5, 6, 8)),
    *(
        _servegen(days, tuning=False)
        for days in _SERVEGEN["reporting"]
        if days["scored"] != "the stored day 8"
    ),
    *(_threefold(days) for days in _SERVEGEN["reporting_threefold"]),
    _azure("azure2024-thursday", _AZURE["reporting"][0], tuning=False, statics=(3, 4, 5, 6, 7)),
    _azure("azure2024-saturday", _AZURE["reporting"][1], tuning=False, statics=(1, 2, 3, 4)),
    # One day is published; its first two hours warm up, and nobody knows the day before. Of its prompts 2.7 % take more than a second.
    Scenario(
        "deepseek-day",
        replace(WHOLE_DAY, ttft=2.5, score_from=7200.0),
        lambda folder, seed: deepseek_day(folder, DAYS["deepseek-r1"]["share_of_each_clients_rate"], seed),
        False,
        (6, 7, 8, 9, 10),
    ),
    _csv("azure2023-code", (6, 8, 10, 11, 12)),
    _csv("azure2023-conv", (1, 2, 3)),
    # Prompts of up to 126,000 tokens: a second to the first token is below what prefilling takes.
    Scenario(
        "mooncake",
        replace(HOUR, ttft=10.0, tpot=0.1),
        lambda folder, _: mooncake_hour(folder),
        False,
        (5, 6, 7, 8, 10),
        "hour",
    ),
    _made("step", STEP, _SIZES),
    _made("ramp", RAMP, _SIZES),
    _made("square", SQUARE, _SIZES),
    _made("burst", BURST, (3, 6, 7, 8, 9, 10)),
    _made("on-off", ON_AND_OFF, _SIZES),
    # Metrics fail for five minutes from the step on.
    _made("step-outage", STEP, _SIZES, replace(HOUR, outage=(3600.0, 3900.0)), "fault"),
    _made("square-starts", SQUARE, _SIZES, replace(HOUR, jitter=0.2, failure=0.02), "fault"),
    # The pool has no room for what the step needs, for its first 40 minutes.
    _made("step-shortage", STEP, _SIZES, replace(HOUR, shortage=(3000.0, 6000.0, 3)), "fault"),
)
