"""The benchmark's cheap model loses no request, and the policy sees of it what a metrics page tells."""

from pathlib import Path

import pytest

from bench.autoscale.baselines import KedaWaiting, SloAware, Static
from bench.autoscale.cheap import A100_8B, Run, replay
from bench.autoscale.ours import Tierwright
from bench.autoscale.traces import Request, read_csv
from tierwright.capacity.settings import TierSettings
from tierwright.control.pod_samples import LatencyObjectives

RUN = Run(A100_8B, initial=2, cold_start=60.0)
RAMP = [
    Request(at=at / 10, prompt=2000, output=100)
    for at in range(100, 9000)
    if at % (1 if at > 4500 else 4) == 0
]


@pytest.mark.parametrize("replicas", [1, 2, 6])
def test_every_request_is_judged_once(replicas: int) -> None:
    outcome = replay(RAMP, Static(replicas), Run(A100_8B, initial=replicas))
    assert outcome.requests == len(RAMP)


def test_more_replicas_miss_no_more() -> None:
    misses = [replay(RAMP, Static(n), Run(A100_8B, initial=n)).misses for n in (1, 2, 4, 8)]
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > 100 * misses[-1]


def test_the_policy_grows_with_the_load_and_tells_the_misses_that_happened() -> None:
    ours = Tierwright(TierSettings(1, 24, 0.95, "nvidia", cold_start=60.0), LatencyObjectives(1.0, 0.06))
    outcome = replay(RAMP, ours, RUN)
    assert outcome.peak > 2
    assert outcome.attainment > replay(RAMP, Static(1), Run(A100_8B, initial=1)).attainment
    assert ours.told_misses == pytest.approx(1 - outcome.attainment, abs=0.02)


@pytest.mark.parametrize("rule", [KedaWaiting(), SloAware(1.0, 0.06)], ids=lambda rule: str(rule.name))
def test_published_rules_stay_within_their_bounds(rule: KedaWaiting | SloAware) -> None:
    assert 1 <= replay(RAMP, rule, RUN).peak <= 24


@pytest.mark.parametrize(
    "rows",
    ["-1,10,10", "5,10,10\n4,10,10", "x,1,1", "1,,1"],
    ids=["negative", "unsorted", "words", "missing"],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, rows: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"trace\.csv, line [23]"):
        read_csv(file)
