"""The clairvoyant of the benchmark finds the least cost there is, keeps to its misses, and starts replicas in time."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.autoscale.cheap import A100_8B, Run, replay
from bench.autoscale.oracle import Known, Oracle, cheapest, cost, oracle, path
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Snapshot

misses = st.lists(st.floats(0, 20), min_size=3, max_size=3).map(lambda row: sorted(row, reverse=True))
tables = st.lists(misses, min_size=1, max_size=5)


@given(tables, st.floats(0, 30), st.sampled_from([0.0, 30.0, 180.0]))
@settings(max_examples=60, deadline=None)
def test_no_other_path_costs_less(table: list[list[float]], price: float, start: float) -> None:
    def total(sizes: tuple[int, ...]) -> float:
        missed = sum(row[size - 1] for row, size in zip(table, sizes, strict=True))
        return cost(sizes, 60.0, start) + price * missed

    best = min(total(sizes) for sizes in product((1, 2, 3), repeat=len(table)))
    assert total(path(table, price, 60.0, start)) == pytest.approx(best)


@given(tables, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_its_misses_are_allowed(table: list[list[float]], part: float) -> None:
    allowed = sum(row[2] for row in table) + 1e-3 + part * sum(row[0] for row in table)
    sizes = cheapest(table, allowed, 60.0, 180.0)
    assert sum(row[size - 1] for row, size in zip(table, sizes, strict=True)) <= allowed


def test_a_short_gap_is_bridged_and_a_long_one_is_not() -> None:
    busy, calm = [1000.0, 0.0], [0.0, 0.0]
    assert cheapest([busy, calm, calm, busy], 0.0, 60.0, 180.0) == (2, 2, 2, 2)
    assert cheapest([busy, *[calm] * 5, busy], 0.0, 60.0, 180.0) == (2, 1, 1, 1, 1, 1, 2)


def test_what_no_fleet_holds_is_said() -> None:
    with pytest.raises(ValueError, match="the largest fleet misses 10 requests; 1 are allowed"):
        cheapest([[10.0, 10.0]], 1.0, 60.0, 180.0)


def test_a_replica_is_asked_for_a_start_ahead() -> None:
    known = Known(Oracle(600.0, (1, 1, 1, 1, 1, 3), 0.0, 1.0), lead=180.0)
    asked = [known.tick(Snapshot(now, None, 1, (), 1)) for now in (300.0, 600.0, 720.0, 900.0, 5000.0)]
    assert asked == [None, 1, 3, 3, 3]


def test_it_needs_no_more_than_the_best_fixed_fleet() -> None:
    calm = [Request(second / 2, 500, 20) for second in range(1800)]
    busy = [Request(900 + second / 30, 500, 20) for second in range(9000)]
    requests = calm + busy
    run = Run(A100_8B, initial=1)
    known = oracle(requests, run, 0.99, 6)
    outcome = replay(requests, Known(known, run.cold_start), run)
    assert outcome.attainment > 0.985
    assert known.hours < cost((max(known.sizes),) * 20, 60.0, 0.0) / 3600
