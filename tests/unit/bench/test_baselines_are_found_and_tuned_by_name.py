"""Every baseline of the benchmark is registered with knobs that its constructor takes, and with its values as shipped."""

import inspect
from dataclasses import replace

import pytest

from bench.autoscale.baselines import BASELINES
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Pages, Ready
from bench.autoscale.cells import policies, settings
from bench.autoscale.cheap import A100_8B, Run
from bench.autoscale.fleet_page import page
from bench.autoscale.scenarios import SCENARIOS
from tests.unit.bench.snapshots import follow, seen, text
from tierwright.observe.metrics import parse
from tierwright.planning.counters import Counters

RUN = Run(A100_8B, most=6)
AVAILABLE = [name for name, each in BASELINES.items() if each.available]


@pytest.mark.parametrize("name", [name for name in BASELINES if name not in AVAILABLE])
def test_a_rule_whose_wheel_is_missing_says_what_to_install(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"install requirements/bench-dynamo\.txt"):
        BASELINES[name].make(RUN)


def test_values_tuned_for_another_baseline_fit_the_knobs() -> None:
    for each in BASELINES.values():
        if each.tuned_as:
            assert each.knobs == BASELINES[each.tuned_as].knobs


def test_all_peers_of_the_list_are_there() -> None:
    assert set(BASELINES) == {
        *("static", "keda-waiting", "hpa-running", "hpa-kv", "knative-kpa", "aibrix-apa", "kubeai"),
        *("llm-d-queue", "llm-d-queue-guard", "llm-d-token-aware", "llm-d-slo-aware", "wva-v1", "wva-v2"),
        *("ray-serve", "chiron-style", "sageserve-style", "wva-queueing", "aibrix-kpa"),
        *("dynamo-throughput", "dynamo-latency", "dynamo-sla", "dynamo-sla-constant"),
    }
    assert {name for name, each in BASELINES.items() if each.wheel} == {
        *("dynamo-throughput", "dynamo-latency", "dynamo-sla", "dynamo-sla-constant"),
    }
    assert {name for name, each in BASELINES.items() if each.re_implemented} == {
        "chiron-style",
        "sageserve-style",
    }


@pytest.mark.parametrize("name", AVAILABLE)
def test_what_is_shipped_is_the_constructors_default(name: str) -> None:
    baseline = BASELINES[name]
    parameters = inspect.signature(type(baseline.make(RUN))).parameters
    assert {knob.name: parameters[knob.name].default for knob in baseline.knobs} == baseline.shipped


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("name", AVAILABLE)
def test_every_end_of_every_range_makes_a_rule_that_stays_in_bounds(name: str, share: float) -> None:
    baseline = BASELINES[name]
    for each in ({knob.name: knob.at(share)} for knob in baseline.knobs):
        rule = baseline.make(RUN, each)
        sizes = follow(rule, text(running=500, waiting=500, kv=1.0), 400, 2)
        assert all(1 <= size <= (RUN.most if name != "static" else 24) for size in sizes)


# The queueing model that has seen nothing but an overload takes it for the replica's nature: no rate would do, so it keeps its size.
@pytest.mark.parametrize("name", [name for name in AVAILABLE if name not in ("static", "wva-queueing")])
def test_an_overload_makes_every_rule_grow(name: str) -> None:
    rule, ready = BASELINES[name].make(replace(RUN, most=24)), 1
    counters = Counters(running=256, waiting=500, kv_usage=0.95, prompt_tokens=1e6)
    for tick in range(120):
        for _ in range(10):
            counters.first(5.0)
            counters.ended(0.2)
        counters.finished += 10
        counters.prompt_tokens += 10_000
        counters.output_tokens += 1_000
        counters.inter_tokens += 990
        counters.inter_token_seconds += 990 * 0.2
        ready = rule.tick(seen(tick * 10.0, page(counters, 27_000, 16), ready)) or ready
    assert ready > 1


def test_an_unknown_knob_and_a_value_outside_its_range_are_refused() -> None:
    with pytest.raises(ValueError, match="kubeai has no knob pace; it has target, window, down_delay"):
        BASELINES["kubeai"].make(RUN, {"pace": 1})
    with pytest.raises(ValueError, match=r"kubeai: target lies in 1\.\.200, not at 0"):
        BASELINES["kubeai"].make(RUN, {"target": 0})


def test_a_knob_spans_its_range_evenly_or_by_powers() -> None:
    assert Knob("a", 5, 0, 10).at(0.25) == 2.5
    assert Knob("a", 4, 1, 16, log=True).at(0.5) == pytest.approx(4)
    assert Knob("a", 4, 1, 24, whole=True).at(0.5) == 12
    for wrong in ((11, 0, 10, False), (5, 0, 10, True)):
        with pytest.raises(ValueError, match="knob a"):
            Knob("a", *wrong[:3], log=wrong[3])
    with pytest.raises(ValueError, match="share"):
        Knob("a", 5, 0, 10).at(1.5)


def test_the_benchmark_runs_every_baseline_as_shipped() -> None:
    for name in AVAILABLE:
        variants = dict(settings(name, SCENARIOS[0]))
        if name == "static":
            assert set(variants) == {str(size) for size in SCENARIOS[0].statics}
        else:
            assert dict(variants["shipped"]) == BASELINES[name].shipped
    assert set(AVAILABLE) <= set(policies())


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_page_without_the_wanted_families_moves_no_rule_but_keda(name: str) -> None:
    rule = BASELINES[name].make(RUN)
    answers = [rule.tick(seen(at * 10.0, "up 1\n", 4)) for at in range(40)]
    kept = {None, 4}
    if name == "keda-waiting":
        kept = {4, 1, None}  # no series reads as zero
    elif name in ("llm-d-queue-guard", "llm-d-slo-aware"):
        kept = {4, 3, 1, None}  # the fallback to one replica; no traffic is no strain
    assert set(answers) <= kept


def test_a_page_is_judged_by_the_replicas_of_its_own_time() -> None:
    counts = Ready()
    for now, ready in ((0.0, 2), (10.0, 3), (20.0, 0)):
        counts.add(now, ready)
    assert [counts.at(time) for time in (-5.0, 0.0, 9.0, 15.0, 20.0)] == [2, 2, 2, 3, 1]


def test_a_page_that_is_shown_twice_covers_no_time() -> None:
    pages = Pages(60.0)
    assert pages.span == 0
    for at, finished in ((0.0, 0), (0.0, 0), (30.0, 5), (60.0, 9), (90.0, 20)):
        pages.add(at, parse(page(Counters(finished=finished), 10, 10)))
    assert pages.span == 60
    assert pages.delta is not None
    assert pages.delta.finished == 15
