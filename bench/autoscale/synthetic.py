"""Requests of made-up loads: a rate over time, Poisson arrivals, token counts of ServeGen's m-large."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.autoscale.traces import Request, drawn_tokens, summary_quantiles

Rate = Callable[[float], float]
"""Requests a second at a time in seconds."""


@dataclass(frozen=True, slots=True)
class Load:
    """A rate that never exceeds `highest`, for `seconds`."""

    rate: Rate
    highest: float
    seconds: float


def step(low: float, factor: float, before: float, high_for: float, after: float) -> Load:
    """One step up by the factor, and back."""
    end = before + high_for
    return Load(lambda at: low * factor if before <= at < end else low, low * factor, end + after)


def ramp(low: float, high: float, rest: float, slope: float) -> Load:
    """Rest at the low rate, rise evenly, rest at the high one, fall evenly, rest."""

    def rate(at: float) -> float:
        up, down = (at - rest) / slope, (at - 2 * rest - slope) / slope
        return low + (high - low) * (min(1.0, max(0.0, up)) - min(1.0, max(0.0, down)))

    return Load(rate, high, 3 * rest + 2 * slope)


def square(low: float, high: float, half: float, periods: int) -> Load:
    """The low and the high rate in turn, each for `half` seconds."""
    return Load(lambda at: high if int(at // half) % 2 else low, high, 2 * half * periods)


def burst(base: float, factor: float, at: float, lasting: float, seconds: float) -> Load:
    """A single burst."""
    return Load(lambda now: base * factor if at <= now < at + lasting else base, base * factor, seconds)


def on_and_off(rate: float, on: float, off: float, periods: int) -> Load:
    """A rate that falls to nothing between whiles; it begins and ends with nothing."""
    period = on + off
    return Load(lambda at: rate if at % period >= off else 0.0, rate, period * periods)


def drawn(load: Load, folder: Path, seed: int) -> list[Request]:
    """The requests: arrivals at the highest rate, thinned to the rate of the moment."""
    draw = random.Random(f"synthetic/{seed}")  # noqa: S311 - a simulation
    sizes = summary_quantiles(folder, "m-large")
    requests: list[Request] = []
    at = draw.expovariate(load.highest)
    while at < load.seconds:
        if draw.random() * load.highest < load.rate(at):
            prompt, output = drawn_tokens(draw, sizes["input"]), drawn_tokens(draw, sizes["output"])
            requests.append(Request(at, prompt, output))
        at += draw.expovariate(load.highest)
    return requests
