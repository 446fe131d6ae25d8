"""The tuner: the same trials for all, settings drawn the same each time, the cheapest that keeps the promise, and nothing run twice."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bench.autoscale.baselines import BASELINES
from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.digests import digest
from bench.autoscale.tune import (
    FINALISTS,
    FINALS,
    SCREENING,
    Trial,
    Tuning,
    best,
    code,
    collected,
    finalists,
    knobs,
    make,
    policies,
    proposed,
    read,
    trials_of,
)
from bench.autoscale.tuned import FILE, tuned

NOWHERE = Path("/nonexistent")


def trial(index: int, hours: float, misses: int) -> Trial:
    return Trial(index, {"target": float(index + 1)}, hours, 1000, misses)


def row(policy: str, index: int, hours: float, misses: int, day: str = SCREENING) -> dict[str, Any]:
    values = proposed(policy, index, [])
    return {
        "policy": policy,
        "trial": index,
        "code": code(policy),
        "values": values,
        "day": day,
        "requests": 1000,
        "misses": misses,
        "hours": hours,
        "seconds": 1.0,
    }


def written(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return path


def test_the_best_is_the_cheapest_that_keeps_the_target() -> None:
    trials = [trial(0, 50, 30), trial(1, 70, 10), trial(2, 60, 9), trial(3, 90, 0)]
    assert best(trials, 0.99).index == 2
    assert best(trials, 0.95).index == 0
    assert best(trials[:1], 0.99).index == 0  # nothing keeps it: the nearest


def test_of_those_that_miss_the_target_the_nearest_counts_and_not_the_cheapest() -> None:
    assert best([trial(0, 10, 300), trial(1, 20, 100), trial(2, 30, 100)], 0.99).index == 1


@pytest.mark.parametrize("policy", policies())
def test_the_first_trial_is_what_is_shipped_and_all_lie_within_the_ranges(policy: str) -> None:
    ranges = {knob.name: knob for knob in knobs(policy)}
    assert proposed(policy, 0, []) == {name: knob.shipped for name, knob in ranges.items()}
    before: list[Trial] = []
    for index in range(24):
        values = proposed(policy, index, before)
        assert values == proposed(policy, index, before)
        assert set(values) == set(ranges)
        assert all(knob.least <= values[name] <= knob.most for name, knob in ranges.items())
        make(policy, Run(A100_8B), values)
        before.append(Trial(index, values, 50 - index, 1000, 20 - index % 3))


def test_fixed_fleets_are_tried_size_by_size() -> None:
    assert [proposed("static", index, [])["replicas"] for index in range(24)] == [4, *range(1, 24)]


def test_later_trials_lie_near_the_best() -> None:
    trials = [Trial(index, proposed("kubeai", index, []), 50, 1000, 500) for index in range(12)]
    winner = Trial(3, {"target": 20.0, "window": 60.0, "down_delay": 300.0}, 40, 1000, 1)
    near = [proposed("kubeai", index, [*trials, winner])["window"] for index in range(12, 24)]
    assert sum(20 < window < 180 for window in near) >= 8


def test_finalists_are_what_is_shipped_and_the_best_for_each_goal() -> None:
    trials = [
        trial(0, 99, 900),
        trial(1, 70, 4),
        trial(2, 60, 9),
        trial(3, 50, 29),
        trial(4, 40, 49),
        trial(5, 30, 500),
    ]
    assert [each.index for each in finalists(trials)] == [0, 1, 2, 3, 4]
    assert len(finalists(trials)) <= len(FINALISTS) + 1


def test_all_policies_take_turns_and_nothing_is_run_twice(tmp_path: Path) -> None:
    names = ["kubeai", "ray-serve"]
    path = written(tmp_path / "trials.jsonl", [row("kubeai", 0, 50, 9)])
    tuning = Tuning(path, NOWHERE, names)
    order = []
    for name, index, _, day in tuning.missing(2):
        order.append((name, index, day))
        tuning.rows.append(row(name, index, 50 + index, 9, day))
    assert order[:3] == [("ray-serve", 0, SCREENING), ("kubeai", 1, SCREENING), ("ray-serve", 1, SCREENING)]
    # Trial 0 is shipped and the best for every goal but 99.5 %, for which both are as near.
    assert order[3:] == [(name, 0, day) for name in names for day in FINALS]
    assert list(tuning.missing(2)) == []


def test_trials_of_changed_code_and_of_other_days_do_not_count() -> None:
    old = {**row("kubeai", 0, 10, 0), "code": "another"}
    rows = [old, row("kubeai", 1, 50, 9), row("kubeai", 1, 30, 1, FINALS[0])]
    assert [each.index for each in trials_of(rows, "kubeai", code("kubeai"), [SCREENING])] == [1]
    both = trials_of(rows, "kubeai", code("kubeai"), [SCREENING, FINALS[0]])
    assert [(each.hours, each.requests, each.misses) for each in both] == [(80, 2000, 10)]


def test_a_row_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    assert read(path) == []
    path.write_text(json.dumps({"policy": "kubeai"}) + "\n" + '{"policy": "ray', encoding="utf-8")
    assert read(path) == [{"policy": "kubeai"}]


def test_what_was_tuned_is_told_with_its_days_and_read_back(tmp_path: Path) -> None:
    rows = [
        row("kubeai", 0, 20, 500),
        row("kubeai", 1, 50, 9),
        row("kubeai", 2, 40, 45),
        row("ray-serve", 0, 70, 30),
    ]
    rows += [row("ray-serve", 0, 60, 10, day) for day in FINALS]
    document = collected(rows, ["kubeai", "ray-serve", "keda-waiting"])
    assert document["policies"]["kubeai"]["days"] == [SCREENING]
    assert document["policies"]["ray-serve"]["days"] == [SCREENING, *FINALS]
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    found = tuned("kubeai", 0.99, file)
    assert found is not None
    assert (found.hours, found.attainment, found.kept) == (50, 0.991, True)
    assert found.values == pytest.approx(proposed("kubeai", 1, []), rel=1e-4)
    cheaper, far = tuned("kubeai", 0.95, file), tuned("ray-serve", 0.99, file)
    assert cheaper is not None
    assert cheaper.hours == 40
    assert far is not None
    assert (far.hours, far.kept) == (190, False)
    assert tuned("keda-waiting", 0.99, file) is None
    assert tuned("kubeai", 0.99, tmp_path / "none.json") is None
    with pytest.raises(ValueError, match=r"tuned for 0\.95 and 0\.99, not for 0\.9$"):
        tuned("kubeai", 0.9, file)


def test_a_baseline_takes_the_values_of_the_one_it_is_tuned_as(tmp_path: Path) -> None:
    best_of = {"values": {"scale": 0.5}, "hours": 1.0, "attainment": 0.99, "kept": True}
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"policies": {"dynamo-sla-constant": {"0.99": best_of}}}), encoding="utf-8")
    found = tuned("dynamo-sla", 0.99, file)
    assert found is not None
    assert found.values == {"scale": 0.5}
    assert all(not each.tuned_as or each.tuned_as in BASELINES for each in BASELINES.values())


def test_rounded_values_stay_within_their_ranges() -> None:
    for name in policies():
        for index in range(12):
            values = {key: float(f"{value:.5g}") for key, value in proposed(name, index, []).items()}
            make(name, Run(A100_8B), values)


def test_a_digest_covers_what_decides_and_nothing_else() -> None:
    keda, hpa = digest("bench.autoscale.baselines.keda"), digest("bench.autoscale.baselines.hpa")
    assert keda != hpa
    assert keda == digest("bench.autoscale.baselines.keda")
    assert digest("tierwright.capacity.need") != digest("tierwright.capacity.policy")
    with pytest.raises(ModuleNotFoundError, match="no source"):
        digest("bench.autoscale.baselines.nothing")


def test_every_other_of_the_first_trials_moves_the_first_knob_alone() -> None:
    first, *others = knobs("llm-d-slo-aware")
    moved = [proposed("llm-d-slo-aware", index, []) for index in (2, 4, 6, 8)]
    assert all(values[knob.name] == knob.shipped for values in moved for knob in others)
    assert [first.share(values[first.name]) for values in moved] == pytest.approx([0.5, 0.25, 0.75, 0.125])


def test_what_is_kept_of_the_tuning_fits_the_policies_of_today() -> None:
    document = json.loads(FILE.read_text("utf-8"))
    for name, found in document["policies"].items():
        ranges = {knob.name: knob for knob in knobs(name)}
        for target in ("0.99", "0.95"):
            values = found[target]["values"]
            assert set(values) == set(ranges)
            assert all(ranges[key].least <= value <= ranges[key].most for key, value in values.items())
    assert len({found["trials"] for found in document["policies"].values()}) <= 2  # an interrupted turn
