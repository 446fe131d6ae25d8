"""Requests to replay: read from a CSV, or drawn anew from published rates and token quantiles."""

import csv
import gzip
import random
from bisect import bisect_left
from collections.abc import Iterator
from math import exp, lgamma
from pathlib import Path

from tierwright.planning.engine import Request as Request

WINDOW = 600.0
DAY = 86_400.0
QUANTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.9)


def read_csv(path: Path) -> list[Request]:
    """Requests of a file with arrival_s, input_tokens, output_tokens, in order of arrival. Raises ValueError on a bad row."""
    opener = gzip.open if path.suffix == ".gz" else open
    found: list[Request] = []
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                request = Request(
                    float(row["arrival_s"]), int(row["input_tokens"]), int(row["output_tokens"])
                )
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}") from error
            if request.at < 0 or (found and request.at < found[-1].at):
                raise ValueError(f"{path}, line {number}: arrivals must ascend from zero")
            found.append(Request(request.at, max(1, request.prompt), max(1, request.output)))
    return found


def servegen_days(folder: Path, days: range, seed: int) -> list[Request]:
    """Days of ServeGen's m-large, drawn as the stored day 8 was: its 39 clients, their fits, prompt and output independent."""
    with gzip.open(folder / "servegen_mlarge_day8_generated.csv.gz", "rt") as file:
        clients = {row["client"] for row in csv.DictReader(file)}
    tokens = _token_quantiles(folder, "m-large")
    begin, end = days.start * DAY, days.stop * DAY
    requests: list[Request] = []
    with gzip.open(folder / "servegen_clients_m-large.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            start = float(row["window_start_s"])
            if row["client"] not in clients or not begin <= start < end:
                continue
            draw = random.Random(f"{seed}/{row['client']}/{start}")  # noqa: S311 - a simulation
            sizes = _sizes(tokens[row["client"]], start)
            arrivals = _renewals(
                draw, start, float(row["rate_rps"]), row["iat_family"], float(row["iat_shape"] or 1)
            )
            requests.extend(
                Request(at - begin, drawn_tokens(draw, sizes["input"]), drawn_tokens(draw, sizes["output"]))
                for at in arrivals
            )
    return sorted(requests, key=lambda request: request.at)


def deepseek_day(folder: Path, share: float, seed: int) -> list[Request]:
    """ServeGen's one day of deepseek-r1, whose answers are long, at a share of each client's rate.

    Gaps keep their published family and shape, so that a thinned client is as bursty as the whole one.
    """
    tokens = _token_quantiles(folder, "deepseek-r1")
    requests: list[Request] = []
    with gzip.open(folder / "servegen_clients_deepseek-r1.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            start = float(row["window_start_s"])
            draw = random.Random(f"deepseek/{seed}/{row['client']}/{start}")  # noqa: S311 - a simulation
            sizes = _sizes(tokens[row["client"]], start)
            rate, shape = share * float(row["rate_rps"]), float(row["iat_shape"] or 1)
            requests.extend(
                Request(at, drawn_tokens(draw, sizes["input"]), drawn_tokens(draw, sizes["output"]))
                for at in _renewals(draw, start, rate, row["iat_family"], shape)
            )
    return sorted(requests, key=lambda request: request.at)


def mooncake_hour(folder: Path) -> list[Request]:
    """Mooncake's hour of chat; a prompt is what an endless shared cache does not hold of it."""
    with gzip.open(folder / "mooncake_fast25_conversation.csv.gz", "rt") as file:
        return [
            Request(
                float(row["arrival_ms"]) / 1000,
                max(1, int(row["input_tokens"]) - int(row["prefix_hit_tokens_infinite_cache"])),
                max(1, int(row["output_tokens"])),
            )
            for row in csv.DictReader(file)
        ]


def summary_quantiles(folder: Path, model: str) -> dict[str, list[float]]:
    """Token quantiles of a ServeGen model over all its clients, for `input` and `output`."""
    with gzip.open(folder / "servegen_token_summary.csv.gz", "rt") as file:
        return {row["side"]: _values(row) for row in csv.DictReader(file) if row["model"] == model}


def azure_days(folder: Path, days: range, mean_rate: float, dispersion: float, seed: int) -> list[Request]:
    """Days of the Azure 2024 chat week, scaled to a mean rate, with ServeGen m-large's token quantiles.

    The published week is a rate only; within 30 s the rate is drawn from a gamma distribution whose variance gives the
    index of dispersion per minute that the published hour of 2023 has.
    """
    draw = random.Random(f"azure/{seed}/{days}")  # noqa: S311 - a simulation
    with gzip.open(folder / "azure2024_conv_rate_digitised.csv.gz", "rt") as file:
        points = [(float(row["offset_s"]), float(row["rpm_mid"])) for row in csv.DictReader(file)]
    mean = sum(rate for _, rate in points) / len(points)
    sizes = summary_quantiles(folder, "m-large")
    times = [at for at, _ in points]
    requests: list[Request] = []
    span = 30.0
    at = days.start * DAY
    while at < days.stop * DAY:
        place = min(len(points) - 1, bisect_left(times, at))
        rate = points[place][1] / mean * mean_rate
        shape = rate * span * 2 / max(1e-9, dispersion - 1)
        count = draw.gammavariate(shape, rate * span / shape)
        for _ in range(_poisson(draw, count)):
            moment = at - days.start * DAY + draw.random() * span
            requests.append(
                Request(moment, drawn_tokens(draw, sizes["input"]), drawn_tokens(draw, sizes["output"]))
            )
        at += span
    return sorted(requests, key=lambda request: request.at)


def _poisson(draw: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(draw.gauss(mean, mean**0.5)))
    limit, product, count = exp(-mean), draw.random(), 0
    while product > limit:
        product *= draw.random()
        count += 1
    return count


def _renewals(draw: random.Random, start: float, rate: float, family: str, shape: float) -> Iterator[float]:
    """Arrivals of one window whose gaps have the family, the shape and the mean 1/rate."""
    at = start + draw.random() * min(WINDOW, 1 / rate)
    while at < start + WINDOW:
        yield at
        if family == "Gamma":
            at += draw.gammavariate(shape, 1 / (rate * shape))
        elif family == "Weibull":
            at += draw.weibullvariate(1 / (rate * exp(lgamma(1 + 1 / shape))), shape)
        else:
            at += draw.expovariate(rate)


def _values(row: dict[str, str]) -> list[float]:
    return [float(row[f"q{q:g}"]) for q in QUANTILES]


def _token_quantiles(folder: Path, model: str) -> dict[str, dict[tuple[str, float], list[float]]]:
    found: dict[str, dict[tuple[str, float], list[float]]] = {}
    with gzip.open(folder / "servegen_token_quantiles_by_client.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                key = (row["side"], float(row["window6h_start_s"]))
                found.setdefault(row["client"], {})[key] = _values(row)
    return found


def _sizes(by_window: dict[tuple[str, float], list[float]], at: float) -> dict[str, list[float]]:
    """The quantiles of the nearest 6-hour window, per side."""
    return {
        side: min(
            ((abs(start - at), values) for (which, start), values in by_window.items() if which == side)
        )[1]
        for side in ("input", "output")
    }


def drawn_tokens(draw: random.Random, values: list[float]) -> int:
    """A value between the published quantiles, linear in between."""
    share = draw.random() * 100
    place = min(len(QUANTILES) - 1, bisect_left(QUANTILES, share))
    if place == 0:
        return max(1, round(values[0]))
    low, high = QUANTILES[place - 1], QUANTILES[place]
    part = min(1.0, (share - low) / (high - low))
    return max(1, round(values[place - 1] + part * (values[place] - values[place - 1])))
