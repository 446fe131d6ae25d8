"""Frontiers, savings and intervals are reckoned right, and the page shows what the results say."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.autoscale import page
from bench.autoscale.page import BEGIN, END, PAGE, aligned, tables, write_page
from bench.autoscale.plots import draw
from bench.autoscale.results import (
    RESULTS,
    Found,
    as_text,
    attainment_at,
    document,
    frontier,
    hours_at,
    interval,
    summary,
)

POINTS = [(10.0, 0.9), (20.0, 0.98), (40.0, 1.0)]


def row(policy: str, hours: float, met: float, **other: Any) -> dict[str, Any]:
    """A row of a day."""
    return {
        "scenario": "servegen-day8",
        "hardware": "8b-a100",
        "cold_start": 180.0,
        "policy": policy,
        "variant": "shipped",
        "knob": 1.0,
        "values": {},
        "seed": 1,
        "engine": "referee",
        "accelerator_hours": hours,
        "attainment": met,
        "violation_minutes": 3,
        "reversals_per_hour": 0.5,
        "recovery_minutes": 2,
        "told_miss_share": None,
        **other,
    }


ROWS = [
    *(row("static", 50.0 * n, met, variant=str(n)) for n, met in ((1, 0.9), (2, 0.98), (3, 1.0))),
    row("tierwright", 100.0, 0.985, told_miss_share=0.018, fleet=[[1.0, 2, 0.0], [2.0, 3, 0.1]]),
    row("tierwright", 120.0, 0.995, variant="promise-99.5"),
    row("keda-waiting", 220.0, 0.992, reversals_per_hour=9.0),
    row("hpa-running", 90.0, 0.7),
    row("oracle", 88.0, 0.99),
    row("static", 11.0, 0.99, scenario="azure2023-code", variant="11"),
    row("tierwright", 13.2, 0.99, scenario="azure2023-code", reversals_per_hour=1.5),
    row("static", 99.0, 0.981, variant="2", engine="cheap"),
]


def test_a_setting_that_another_beats_in_both_is_not_on_the_frontier() -> None:
    rows = [
        row("a", hours, met)
        for hours, met in ((20.0, 0.98), (10.0, 0.9), (30.0, 0.97), (40.0, 1.0), (10.0, 0.8))
    ]
    assert frontier(rows) == POINTS
    assert frontier([]) == []


@pytest.mark.parametrize(
    ("target", "hours"), [(0.94, 15.0), (0.98, 20.0), (0.99, 30.0), (0.5, 10.0), (1.0, 40.0)]
)
def test_hours_lie_between_two_settings_and_never_beyond_them(target: float, hours: float) -> None:
    assert hours_at(POINTS, target) == pytest.approx(hours)
    assert hours_at(POINTS[:1], 0.95) is None
    assert hours_at([], target) is None


@pytest.mark.parametrize(("hours", "met"), [(15.0, 0.94), (40.0, 1.0), (99.0, 1.0)])
def test_attainment_lies_between_two_settings(hours: float, met: float) -> None:
    assert attainment_at(POINTS, hours) == pytest.approx(met)
    assert attainment_at(POINTS, 9.0) is None


def test_an_interval_needs_three_seeds_and_holds_the_mean() -> None:
    assert interval([1.0, 2.0]) is None
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0]) or (0.0, 0.0)
    assert 1 < low < 3 < high < 5


def test_the_summary_is_the_worst_of_each() -> None:
    assert summary(Found(ROWS)) == {
        "saving_vs_best_static_pct": 12.0,  # 110 h, where fixed fleets take 125
        "saving_vs_best_baseline_pct": 50.0,
        "oracle_ratio": 1.25,
        "burst_vs_static_pct": 20.0,
        "reversals_per_hour": 1.5,
        "miss_share_error_points": 0.3,
    }


def test_what_never_gets_there_saves_nothing_and_what_was_not_run_is_open() -> None:
    never = [each for each in ROWS if each["variant"] != "promise-99.5"]
    assert summary(Found(never))["saving_vs_best_static_pct"] == -100
    assert set(summary(Found([])).values()) == {None}


def test_seeds_are_paired_and_one_that_fails_leaves_no_mean() -> None:
    more = [
        *ROWS,
        row("tierwright", 90.0, 0.99, seed=2),
        row("static", 100.0, 0.99, seed=2),
        row("oracle", 1.0, 0.5, seed=2),
    ]
    found = Found(more)
    place = ("servegen-day8", "8b-a100", 180.0)
    assert found.against(place, "tierwright", "static", 0.99) == pytest.approx([110 / 125, 0.9])
    assert found.mean_hours(place, "tierwright", 0.99) == pytest.approx(100)
    assert found.mean_hours(place, "oracle", 0.99) is None


def test_the_tables_hold_every_policy_and_both_engines() -> None:
    lines = tables(document(ROWS, 100))
    text = "\n".join(lines)
    assert "11 of 100 runs" in text
    assert "| `oracle_ratio` | 1.25 | at most 1.25 | met |" in text
    order = [
        line.split(" | ")[0] for line in lines if line.startswith(("| **tier", "| static", "| keda", "| hpa"))
    ]
    assert order[:4] == ["| **tierwright**", "| static", "| keda-waiting", "| hpa-running"]
    assert "| servegen-day8 | static | 2 | 100.0 | 99.0 | 98.00% | 98.10% |" in text
    assert "| 1.25 | 100.0 h, 98.50% |" in text


def test_the_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Before\n\n{BEGIN}\nearlier\n{END}\n\nAfter\n", encoding="utf-8")
    write_page(path, document(ROWS, 100))
    first = path.read_text(encoding="utf-8")
    assert "earlier" not in first
    assert first.startswith("# Before\n")
    assert first.endswith("After\n")
    write_page(path, document(ROWS, 100))
    assert path.read_text(encoding="utf-8") == first
    for wrong in ("no marks", BEGIN):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match="lacks"):
            write_page(path, document(ROWS, 100))


def test_the_page_in_the_repository_shows_the_results_in_the_repository() -> None:
    results = json.loads(RESULTS.read_text("utf-8"))
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown.strip() == "\n".join(tables(results)).strip()
    assert set(results["summary"]) == set(page.GOALS)
    assert results["summary"] == summary(Found(results["rows"]))


def test_the_document_is_read_as_it_was_written() -> None:
    results = document(ROWS, 100)
    text = as_text(results)
    assert json.loads(text) == results
    assert sum('"policy"' in line for line in text.splitlines()) == len(ROWS)


def test_pictures_are_drawn_alike_each_time(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in draw(document(ROWS, 1), tmp_path)}
    assert set(first) == {
        "autoscaling-servegen-day8-8b-a100-180s.svg",
        "autoscaling-servegen-day8-8b-a100-180s-fleet.svg",
        "autoscaling-azure2023-code-8b-a100-180s.svg",
    }
    assert {path.name: path.read_bytes() for path in draw(document(ROWS, 1), tmp_path)} == first
    assert all(each.startswith(b"<?xml") for each in first.values())


def test_columns_stand_below_each_other() -> None:
    assert aligned([("a", "bb"), ("ccc", "d")]) == ["a    bb", "ccc  d"]
