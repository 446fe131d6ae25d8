"""What a trace amounts to, what no replica could serve in time, and how a run is summed up over time."""

from dataclasses import replace

import pytest

from tests.unit.planning.cases import CASE, ENGINE, demand_of, figures, steady
from tierwright.capacity.work import Mix, StepTime
from tierwright.planning.autoscaler import simulate
from tierwright.planning.case import Static
from tierwright.planning.demand import Demand
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Change
from tierwright.planning.measured import MEASURED
from tierwright.planning.over_time import intervals


def test_the_work_is_that_of_the_autoscaler() -> None:
    step = StepTime(ENGINE.fixed, ENGINE.batch, ENGINE.context, ENGINE.prefill)
    demand = demand_of([Request(1.0, 800, 120)])
    assert demand.work == pytest.approx(Mix(1.0, 800.0, 0.0, 120.0).work(step))


@pytest.mark.parametrize(
    ("request_", "late", "slow"),
    [
        (Request(0.0, 1000, 100), 0, 0),
        (Request(0.0, 100_000, 1), 1, 0),
        (Request(0.0, 10, 2_000_000), 0, 1),
        (Request(0.0, 2_000_000, 10), 1, 1),
    ],
)
def test_what_takes_too_long_on_an_idle_replica_is_beyond_reach(
    request_: Request, late: int, slow: int
) -> None:
    demand = demand_of([request_, Request(1.0, 10, 10)])
    assert (demand.late, demand.slow) == (late, slow)
    assert demand.unattainable_share == (0.5 if late or slow else 0.0)


def test_what_is_beyond_reach_misses_with_any_number_of_replicas() -> None:
    requests = [Request(place * 5.0, 40_000 if place % 4 == 0 else 100, 10) for place in range(200)]
    assert demand_of(requests).unattainable_share == 0.25
    assert simulate(CASE, Static(30), requests).attainment == 0.75


def test_the_busiest_minute_is_found() -> None:
    demand = demand_of([*steady(1.0, 60), *(Request(60 + each.at, 1, 1) for each in steady(3.0, 60))])
    assert (demand.requests, demand.busiest, demand.by_minute) == (240, 180, {0: 60, 1: 180})


def test_no_request_is_no_demand() -> None:
    demand = Demand()
    assert (demand.busiest, demand.unattainable_share, demand.replicas) == (0, 0.0, 0.0)


def test_replicas_requests_and_misses_fall_into_their_intervals() -> None:
    demand = demand_of(steady(1.0, 300))
    run = replace(
        figures(Static(1)),
        changes=(Change(10.0, 1, 1, 1), Change(100.0, 3, 1, 3), Change(160.0, 3, 3, 3)),
        minutes=((0, 60, 0), (1, 60, 30), (3, 60, 60), (4, 60, 0)),
    )
    parts = intervals(run, demand, 10.0, 120.0)
    assert [part.begin for part in parts] == [0.0, 120.0, 240.0]
    assert [part.rate for part in parts] == [1.0, 1.0, 0.5]
    assert [part.replicas for part in parts] == pytest.approx([1.5, 3.0, 3.0])
    assert [part.ready for part in parts] == pytest.approx([1.0, 2.5, 3.0])
    assert [part.attainment for part in parts] == [0.75, 0.0, 1.0]


def test_an_interval_without_scored_requests_has_no_attainment() -> None:
    demand = demand_of([Request(5.0, 1, 1), Request(200.0, 1, 1)])
    run = replace(figures(Static(1)), changes=(Change(10.0, 1, 1, 1),), minutes=((3, 1, 0),))
    assert [part.attainment for part in intervals(run, demand, 10.0, 60.0)] == [None, None, None, 1.0]


def test_replica_hours_and_intervals_tell_the_same() -> None:
    requests = steady(2.0, 1800)
    found = simulate(CASE, Static(2), requests)
    parts = intervals(found, demand_of(requests), CASE.settings.tick, 60.0)
    assert sum(part.replicas * 60 for part in parts) == pytest.approx(2 * 1800)
    assert found.replicas == pytest.approx(2.0)


def test_measured_engines_are_faster_where_the_hardware_is() -> None:
    order = ["llama-3.1-8b/h200", "llama-3.1-8b/h100", "llama-3.1-8b/a100", "llama-3.1-8b/l40s"]
    fixed = [MEASURED[name].fixed for name in order]
    assert fixed == sorted(fixed)
    assert all(min(each.fixed, each.batch, each.context, each.prefill) > 0 for each in MEASURED.values())


@pytest.mark.parametrize(("rate", "seconds", "replicas"), [(1.0, 700, 1), (20.0, 700, 3), (20.0, 120, 3)])
def test_a_fleet_begins_with_what_the_beginning_needs(rate: float, seconds: int, replicas: int) -> None:
    requests = steady(rate, seconds)
    early = demand_of(requests)
    assert early.at_the_beginning == replicas
    assert early.at_the_beginning == pytest.approx(early.replicas / 0.6, abs=1)
    if seconds > 600:
        assert demand_of([*requests, Request(seconds + 1.0, 1_000_000, 1)]).at_the_beginning == replicas
