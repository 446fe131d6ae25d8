"""What is published of autoscaling: counters add up, old figures vanish, series stay bounded, and a tier that is gone leaves none."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from tests.support.ticks import CAUSES, DECISION, FAULTS, REASONS, REPLICAS, metrics, tick
from tierwright.telemetry import autoscaling_names as names
from tierwright.telemetry.autoscaling import LONGEST_TICK, MOST_PENDING
from tierwright.telemetry.autoscaling_values import DecisionInputs, Price, ScrapeOutcome

KEY = ("serving", "fast")
START = 1_800_000_000.0


def value(registry: CollectorRegistry, name: str, key: tuple[str, str] = KEY, **labels: str) -> float | None:
    found: float | None = registry.get_sample_value(name, {"namespace": key[0], "name": key[1], **labels})
    return found


def series(registry: CollectorRegistry) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def of(registry: CollectorRegistry, key: tuple[str, str]) -> int:
    return sum(("name", key[1]) in labels for _, labels in series(registry))


def test_a_tick_is_told_whole() -> None:
    registry = CollectorRegistry()
    metrics(registry).record(KEY, START, tick(START - 4))
    expected: Mapping[str, float] = {
        names.DESIRED: 3,
        names.READY: 2,
        names.STARTING: 1,
        names.FAILING: 0,
        names.UNPLACED: 1,
        names.RECOMMENDED: 4,
        names.MINIMUM: 1,
        names.MAXIMUM: 8,
        names.PROMISE: 0.95,
        names.DEMAND: 2.5,
        names.EXPECTED: 3.1,
        names.HORIZON: 205,
        names.ALLOWED: 0.05,
        names.MISSING: 0.031,
        names.FLOOR: 0.002,
        names.HOLDS: 0.62,
        names.BACKLOG: 7,
        names.RATE: 4.4,
        names.NEWEST_SAMPLE: START - 4,
        names.SCRAPES: 2,
    }
    assert {name: value(registry, name) for name in expected} == expected
    assert value(registry, names.FIRST_TOKEN, percentile="95") == 0.45
    assert value(registry, names.PER_TOKEN, percentile="50") == 0.011
    assert value(registry, names.OBJECTIVE, objective="TimeToFirstToken") == 0.5
    assert value(registry, names.JUDGED, objective="All") == 40
    assert value(registry, names.MISSED, objective="All") == 1.5
    assert value(registry, names.DECISIONS, reason="DemandGrew") == 1
    assert value(registry, names.SCRAPE_FAILURES, cause="TimedOut") == 1
    assert value(registry, names.PAGE_FAULTS, kind="Missing") == 2
    assert value(registry, names.START_SECONDS, percentile="90") == 180


def test_requests_add_up_from_tick_to_tick() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    for count in range(3):
        published.record(KEY, START + 10 * count, tick(START))
    assert value(registry, names.JUDGED, objective="All") == 120
    assert value(registry, names.MISSED, objective="All") == pytest.approx(4.5)


def test_what_is_counted_begins_at_zero_before_it_happens() -> None:
    registry = CollectorRegistry()
    metrics(registry).record(KEY, START, tick(START))
    assert {reason: value(registry, names.DECISIONS, reason=reason) for reason in REASONS} == {
        **dict.fromkeys(REASONS, 0.0),
        "DemandGrew": 1.0,
    }
    assert value(registry, names.SCRAPE_FAILURES, cause="Refused") == 0
    assert value(registry, names.PAGE_FAULTS, kind="Malformed") == 0


def test_no_decision_recommends_what_is_asked_for() -> None:
    registry = CollectorRegistry()
    metrics(registry).record(KEY, START, tick(START, replace(REPLICAS, recommended=None)))
    assert value(registry, names.RECOMMENDED) == 3


def test_old_figures_do_not_pass_for_new_ones() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    published.record(KEY, START, tick(START))
    silent = replace(
        tick(None, decision=DecisionInputs("MetricsUnavailable")),
        first_token=None,
        per_token=None,
        judged={},
        starts=None,
    )
    published.record(KEY, START + 10, silent)
    for name in (names.DEMAND, names.EXPECTED, names.BACKLOG, names.RATE, names.MISSING):
        assert value(registry, name) is None
    assert value(registry, names.FIRST_TOKEN, percentile="95") is None
    assert value(registry, names.JUDGED, objective="All") == 40
    assert value(registry, names.NEWEST_SAMPLE) == START, "the age of the last sample goes on growing"
    assert value(registry, names.START_SECONDS, percentile="90") == 180
    assert value(registry, names.RECOMMENDED) == 4


def test_an_objective_that_is_no_longer_promised_vanishes() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    published.record(KEY, START, tick(START))
    now = tick(START)
    published.record(KEY, START + 10, replace(now, promise=replace(now.promise, first_token=None)))
    assert value(registry, names.OBJECTIVE, objective="TimeToFirstToken") is None
    assert value(registry, names.OBJECTIVE, objective="TimePerOutputToken") == 0.025


def test_words_that_nobody_declared_make_no_new_series() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    for count in range(50):
        strange = replace(
            tick(START, decision=replace(DECISION, reason=f"Reason{count}")),
            scrape=ScrapeOutcome(0, {f"Cause{count}": 1}, {f"Kind{count}": 1}, None),
        )
        published.record(KEY, START + count, strange)
    assert value(registry, names.DECISIONS, reason="Other") == 50
    assert value(registry, names.SCRAPE_FAILURES, cause="Other") == 50
    assert value(registry, names.PAGE_FAULTS, kind="Other") == 50
    assert of(registry, KEY) < 60 + len(REASONS) + len(CAUSES) + len(FAULTS)


def test_a_tier_that_is_gone_leaves_no_series_and_its_neighbour_keeps_all() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    empty = series(registry)
    published.record(("serving", "slow"), START, tick(START))
    before = of(registry, ("serving", "slow"))
    published.record(KEY, START, tick(START))
    published.record(KEY, START + 10, tick(START + 10))
    published.forget(KEY)
    published.forget(KEY)
    assert of(registry, KEY) == 0
    assert of(registry, ("serving", "slow")) == before
    published.forget(("serving", "slow"))
    assert series(registry) == empty


def test_the_forecast_is_held_against_the_demand_of_its_time() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    for at, demand, expected in ((0.0, 1.0, 4.0), (50.0, 1.5, 2.0), (100.0, 3.0, 2.5), (150.0, 2.5, 2.5)):
        published.record(
            KEY,
            START + at,
            tick(START, decision=replace(DECISION, demand=demand, expected=expected, horizon=100.0)),
        )
        if at < 100:
            assert value(registry, names.FORECAST_ERROR) is None
        if at == 100:
            assert value(registry, names.FORECAST_ERROR) == -1.0
    assert value(registry, names.FORECAST_ERROR) == 0.5
    assert value(registry, f"{names.FORECAST_ABSOLUTE_ERROR}_count") == 2
    assert value(registry, f"{names.FORECAST_ABSOLUTE_ERROR}_sum") == 1.5


def test_a_shorter_horizon_replaces_forecasts_and_many_forecasts_stay_bounded() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    for count in range(MOST_PENDING + 50):
        published.record(
            KEY, START + count, tick(START, decision=replace(DECISION, expected=9.0, horizon=10_000.0))
        )
    at = START + MOST_PENDING + 50
    published.record(KEY, at, tick(START, decision=replace(DECISION, expected=2.0, horizon=10.0)))
    published.record(KEY, at + 10, tick(START, decision=replace(DECISION, demand=3.0)))
    assert value(registry, names.FORECAST_ERROR) == 1.0
    assert value(registry, f"{names.FORECAST_ABSOLUTE_ERROR}_count") == 1


def test_time_is_booked_for_what_holds_devices_but_not_for_a_gap_that_nobody_saw() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    published.record(KEY, START, tick(START))
    assert value(registry, names.COST) == 0
    published.record(KEY, START + 100, tick(START))
    assert value(registry, names.REPLICA_SECONDS) == 300
    assert value(registry, names.ACCELERATOR_SECONDS) == 1200
    assert value(registry, names.COST) == pytest.approx(3.0)
    published.record(KEY, START + 110, tick(START, replace(REPLICAS, placed=5)))
    assert value(registry, names.REPLICA_SECONDS) == 350
    published.record(KEY, START + 4000, tick(START))
    assert value(registry, names.REPLICA_SECONDS) == 350 + 3 * LONGEST_TICK
    published.record(KEY, START + 3000, tick(START))
    assert value(registry, names.REPLICA_SECONDS) == 350 + 3 * LONGEST_TICK


def test_a_tier_on_cpus_without_a_price_costs_nothing_but_its_time() -> None:
    registry = CollectorRegistry()
    published = metrics(registry)
    for at in (0, 60):
        published.record(KEY, START + at, replace(tick(START), price=Price(0, None)))
    assert value(registry, names.REPLICA_SECONDS) == 180
    assert value(registry, names.ACCELERATOR_SECONDS) == 0
    assert value(registry, names.COST) == 0


def test_one_registry_takes_them_once() -> None:
    registry = CollectorRegistry()
    metrics(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        metrics(registry)
