"""Finished rows outlive a killed run, one process alone runs a cell, and only what has changed is run again."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.autoscale import cells as grid_of
from bench.autoscale import measure
from bench.autoscale.cells import DAYS, ORACLE, OURS, SEEDS, STRONGEST, grid
from bench.autoscale.measure import GAUGES_ONLY, Cell, key, longest_violation
from bench.autoscale.policy import Snapshot
from bench.autoscale.rows import Rows
from bench.autoscale.run import fill
from bench.autoscale.scrape import Scraping
from bench.autoscale.tune import make
from tests.unit.bench.snapshots import follow, text
from tierwright.planning.engine import Request

CELL = Cell("azure2023-conv", "static", "2", (("replicas", 2.0),), engine="cheap")


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path / "cache"))
    measure.requests_digest.cache_clear()


def test_a_row_is_run_once_and_again_when_its_requests_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, told = Rows(tmp_path / "rows"), list[str]()
    for _ in range(2):
        assert fill([CELL], rows, measure.DATA, 10, told.append) == (1, 1)
    assert len(told) == 1
    assert "1/1" in told[0]
    row = rows.get(key(CELL))
    assert row is not None
    assert row["attainment"] > 0.99
    assert row["accelerator_hours"] == pytest.approx(2.0, abs=0.1)
    monkeypatch.setattr("bench.autoscale.run.requests_digest", lambda *_: "others")
    fill([CELL], rows, measure.DATA, 10, told.append)
    assert len(told) == 2


def test_when_the_time_is_over_nothing_is_begun(tmp_path: Path) -> None:
    assert fill([CELL], Rows(tmp_path / "rows"), measure.DATA, -1, print) == (0, 1)


def test_a_cell_is_claimed_by_one_alone_and_free_again_after(tmp_path: Path) -> None:
    rows, others = Rows(tmp_path), Rows(tmp_path)
    with rows.claimed("a") as mine, others.claimed("a") as theirs, others.claimed("b") as another:
        assert (mine, theirs, another) == (True, False, True)
    with others.claimed("a") as theirs:
        assert theirs


def test_a_half_written_row_is_none(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    (tmp_path / "a.123.part").write_text('{"half')
    assert rows.get("a") is None
    rows.put("a", {"whole": 1})
    assert rows.get("a") == {"whole": 1}


def test_a_key_goes_by_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [
        replace(CELL, values=(("replicas", 3.0),)),
        replace(CELL, seed=2),
        replace(CELL, hardware="8b-h100"),
        replace(CELL, cold_start=60.0),
        replace(CELL, engine="referee"),
        replace(CELL, policy=OURS, values=(("allowed", 0.01), ("hold", 600.0))),
    ]
    assert len({key(each) for each in (CELL, *changed)}) == 7
    assert key(replace(CELL, variant="another name of the same")) == key(CELL)
    monkeypatch.setattr(measure, "code", lambda policy: "new" if policy == OURS else "")
    ours = key(changed[-1])
    monkeypatch.setattr(measure, "code", lambda policy: "newer" if policy == OURS else "")
    assert key(changed[-1]) != ours


def test_the_grid_holds_no_cell_twice_and_every_policy_on_the_reporting_days() -> None:
    cells = grid()
    assert len(cells) == len(set(cells)) == len({key(each) for each in cells})
    policies = {each.policy for each in cells}
    for scenario in DAYS:
        for seed in SEEDS:
            here = {
                each.policy
                for each in cells
                if (each.scenario, each.seed, each.hardware, each.engine) == (scenario, seed, "", "referee")
            }
            assert here == policies
    assert {"static", OURS, ORACLE, *STRONGEST} <= policies
    assert grid_of.estimate(cells[0], {}) > grid_of.estimate(CELL, {})


@pytest.mark.parametrize("policy", sorted(GAUGES_ONLY - {"oracle"}))
def test_rules_that_are_run_without_counters_decide_without_them(policy: str) -> None:
    run = measure.run_of(CELL)
    shipped = {"replicas": 3.0} if policy == "static" else {}
    for running, waiting in ((3, 0), (90, 40), (0, 0)):
        whole = text(running=running, waiting=waiting, kv=0.6)
        gauges = (
            "\n".join(line for line in whole.splitlines() if "num_requests" in line or "kv" in line) + "\n"
        )
        answers = [follow(make(policy, run, shipped), page, 900.0, 4) for page in (whole, gauges)]
        assert answers[0] == answers[1]


def test_the_longest_violation_is_of_minutes_in_a_row() -> None:
    assert longest_violation({}) == 0
    assert longest_violation({1: [100, 5], 2: [100, 2], 3: [100, 1], 4: [100, 9], 9: [10, 1]}) == 2


def test_only_the_last_hour_warms_up_who_learns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [Request(float(at), 1, 1) for at in range(0, 172_800, 600)]
    monkeypatch.setattr(measure, "_requests", lambda *_: (drawn, 86_400.0))
    measure.requests_of.cache_clear()
    short = measure.requests_of("servegen-day8", 1, measure.DATA, False)
    assert short[0].at == 0
    assert len(short) == 25 * 6
    assert measure.requests_of("servegen-day8", 1, measure.DATA, True) == drawn
    measure.requests_of.cache_clear()


def test_who_learns_has_seen_the_day_before_and_goes_on_from_its_size() -> None:
    run = replace(measure.run_of(CELL), score_from=20_000.0, initial=3)
    requests = [Request(float(at), 500, 20) for at in range(0, 22_000, 2)]
    rule = Recorder(4)
    left, going_on = measure._warmed_up(requests, rule, run, Scraping())
    assert left[0].at == 20_000 - 3600
    assert left[-1] == requests[-1]
    assert max(rule.times) <= left[0].at
    assert max(rule.times) > left[0].at - 200
    assert going_on.initial == 4
    assert measure._warmed_up(requests[10_000:], rule, run, Scraping()) == (requests[10_000:], run)


class Recorder:
    """Asks for one size, and keeps the times of its ticks."""

    name = "recorder"

    def __init__(self, size: int) -> None:
        self.times: list[float] = []
        self._size = size

    def tick(self, seen: Snapshot) -> int | None:
        """The same each time."""
        self.times.append(seen.now)
        return self._size
