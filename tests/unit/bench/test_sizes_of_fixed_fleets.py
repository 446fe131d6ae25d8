"""The least fixed fleet over a whole trace and the least for its worst hour."""

import random

import pytest

from bench.autoscale.cheap import A100_8B, Outcome, Run
from bench.autoscale.sizes import best_static, peak_static, worst_hour
from bench.autoscale.traces import Request

RUN = Run(A100_8B, most=8)


def _hours(*rates: float) -> list[Request]:
    draw = random.Random(1)
    return [
        Request(at, 4000, 100)
        for hour, rate in enumerate(rates)
        for at in sorted(3600 * (hour + draw.random()) for _ in range(round(3600 * rate)))
    ]


def test_the_worst_hour_counts_by_itself() -> None:
    outcome = Outcome(by_minute={0: [100, 1], 59: [100, 3], 60: [10, 1], 130: [50, 0]})
    assert worst_hour(outcome) == pytest.approx(0.9)
    assert worst_hour(Outcome()) == 1.0


def test_a_short_peak_asks_more_of_the_fleet_for_its_worst_hour() -> None:
    requests = _hours(0.5, 3.6, *[0.5] * 8)
    assert best_static(requests, RUN, 0.5) == 1  # the busiest hour has 44 % of the requests
    assert peak_static(requests, RUN, 0.5) == 2


def test_a_fleet_that_is_too_small_at_its_largest_is_told() -> None:
    assert best_static(_hours(6.0), Run(A100_8B, most=1), 0.99) is None
