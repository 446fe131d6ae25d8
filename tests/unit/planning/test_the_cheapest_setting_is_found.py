"""Which settings are replayed next, and which one is the answer."""

from dataclasses import replace

import pytest

from tests.unit.planning.cases import CASE, demand_of, figures, steady
from tierwright.planning.case import Case, Figures, Scaled, Setting, Static, as_written
from tierwright.planning.demand import Demand
from tierwright.planning.engine import Request
from tierwright.planning.search import best_static, cheapest, scaled_to_try, statics_to_try

DEMAND = demand_of(steady(5.0, 3600))


def bisected(case: Case, enough: int, demand: Demand = DEMAND, width: int = 1) -> dict[Setting, Figures]:
    """The static sizes that are tried when so many replicas are the fewest that do."""
    tried: dict[Setting, Figures] = {}
    while batch := statics_to_try(case, demand, tried, width):
        assert len(batch) <= max(1, width)
        for each in batch:
            assert each not in tried
            kept = each.replicas >= enough
            tried[each] = figures(each, 0.96 if kept else 0.9, hours=float(each.replicas))
    return tried


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("enough", [1, 2, 3, 7, 12, 40, 137])
def test_the_fewest_static_replicas_are_found_with_few_replays(enough: int, width: int) -> None:
    tried = bisected(CASE, enough, width=width)
    assert best_static(CASE, tried) == Static(enough)
    assert enough == 1 or Static(enough - 1) in tried
    assert len(tried) <= 18 + 2 * width


def test_the_search_ends_where_more_replicas_are_no_help() -> None:
    tried = bisected(CASE, 10_000)
    assert best_static(CASE, tried) is None
    assert max(each.replicas for each in tried if isinstance(each, Static)) == 1000


def test_nothing_is_searched_when_the_promise_is_out_of_reach() -> None:
    long = demand_of([Request(1.0, 1_000_000, 10)])
    tried: dict[Setting, Figures] = {}
    (first,) = statics_to_try(CASE, long, tried, 2)
    tried[first] = figures(first, 0.0)
    assert statics_to_try(CASE, long, tried, 2) == ()


def test_a_wonder_at_a_smaller_size_ends_the_search_there() -> None:
    tried: dict[Setting, Figures] = {
        Static(3): figures(Static(3), 0.99),
        Static(5): figures(Static(5), 0.90),
        Static(2): figures(Static(2), 0.90),
    }
    assert statics_to_try(CASE, DEMAND, tried, 2) == ()


def searched(case: Case, hours: dict[Scaled, float], static: int = 4) -> dict[Setting, Figures]:
    """All settings that are tried; those without hours miss the promise."""
    tried = bisected(case, static)
    while batch := scaled_to_try(case, tried):
        for each in batch:
            assert each not in tried
            kept = each in hours
            tried[each] = figures(each, 0.97 if kept else 0.9, hours.get(each, 0.5))
    return tried


def test_one_field_is_varied_at_a_time_from_the_best_so_far() -> None:
    best = Scaled(2, 0.975, 300.0)
    hours = {as_written(CASE): 3.0, Scaled(2, 0.95, 600.0): 2.5, Scaled(2, 0.975, 600.0): 2.4, best: 2.0}
    tried = searched(CASE, hours)
    assert {each.minimum for each in tried if isinstance(each, Scaled)} == {1, 2, 4}
    assert {each.attainment for each in tried if isinstance(each, Scaled)} == {0.95, 0.975, 0.9875}
    assert {each.hold for each in tried if isinstance(each, Scaled)} == {300.0, 600.0, 1200.0, 3600.0}
    assert all(each.attainment == 0.95 for each in tried if isinstance(each, Scaled) and each.minimum != 2)
    assert cheapest(CASE, tried) == best


def test_where_nothing_keeps_the_promise_the_nearest_is_varied_and_nothing_is_the_answer() -> None:
    tried = searched(CASE, {}, static=10_000)
    assert cheapest(CASE, tried) is None
    assert {each.minimum for each in tried if isinstance(each, Scaled)} == {1}


def test_a_minimum_beyond_the_tiers_maximum_is_not_tried() -> None:
    tried = searched(CASE, {as_written(CASE): 1.0}, static=40)
    assert max(each.minimum for each in tried if isinstance(each, Scaled)) <= 12


def test_a_tier_that_may_sleep_is_also_tried_awake() -> None:
    case = replace(CASE, settings=replace(CASE.settings, minimum=0))
    tried = searched(case, {as_written(case): 1.0})
    assert {0, 1} <= {each.minimum for each in tried if isinstance(each, Scaled)}


def test_a_static_size_wins_where_it_costs_no_more() -> None:
    tried: dict[Setting, Figures] = {
        as_written(CASE): figures(as_written(CASE), 0.99, 4.0),
        Static(4): figures(Static(4), 0.96, 4.0),
        Static(3): figures(Static(3), 0.94, 3.0),
    }
    assert cheapest(CASE, tried) == Static(4)
