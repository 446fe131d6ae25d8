"""Knative, AIBrix, KubeAI, Ray Serve and the two rules written anew from papers."""

import pytest

from bench.autoscale.baselines.aibrix import AibrixKpa, Apa
from bench.autoscale.baselines.chiron import ChironStyle
from bench.autoscale.baselines.knative import Kpa
from bench.autoscale.baselines.kubeai import KubeAi
from bench.autoscale.baselines.ray_serve import RayServe
from bench.autoscale.baselines.sageserve import SageServeStyle, next_hour
from bench.autoscale.fleet_page import page
from tests.unit.bench.snapshots import follow, seen, text
from tierwright.planning.counters import Counters


def test_kpa_halves_at_most_and_counts_ready_replicas_alone() -> None:
    assert Kpa().wanted(0, 71, 71, 1) == 2
    assert Kpa().wanted(0, 0, 0, 9) == 4
    assert Kpa().wanted(0, 0, 0, 1) == 0


def test_kpa_panics_at_twice_the_replicas_and_never_shrinks_until_a_window_later() -> None:
    rule = Kpa()
    assert rule.wanted(0, 70, 280, 2) == 4  # the panic window asks for 4 of 2
    assert rule.wanted(10, 70, 70, 4) == 4
    assert rule.wanted(60, 70, 70, 4) == 4
    assert rule.wanted(61, 70, 70, 4) == 2


def test_kpa_begins_in_panic_over_more_than_one_replica() -> None:
    sizes = follow(Kpa(), text(running=10), 100, 4)
    assert sizes[:7] == [4] * 7
    assert sizes[7:9] == [2, 1]


def test_kpa_averages_over_its_windows_and_holds_when_they_are_empty() -> None:
    rule = Kpa()
    assert rule.tick(seen(0, text(running=60), 1)) == 1
    assert rule.tick(seen(10, text(running=100, waiting=4), 1)) == 2  # the mean of 60 and 104 is 82
    assert rule.tick(seen(20, None, 2)) is None
    assert Kpa().tick(seen(0, text(), 0, wanted=1, queued=100)) == 2


def test_kpa_delays_a_scale_down() -> None:
    rule = Kpa(down_delay=30, panic_threshold=10)
    assert rule.tick(seen(0, text(running=100), 1)) == 2
    assert [rule.tick(seen(at, text(), 1)) for at in (20, 29, 30)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("usage", "replicas", "wanted"),
    [(0.54, 4, 4), (0.56, 4, 5), (1.5, 3, 6), (0.41, 4, 4), (0.39, 4, 4), (0.3, 4, 3), (0.05, 5, 2)],
)
def test_apa_outside_its_tolerances_within_a_factor_of_two(usage: float, replicas: int, wanted: int) -> None:
    assert Apa().wanted(usage, replicas) == wanted


def test_apas_cooldown_hurries_as_shipped_and_holds_when_mended() -> None:
    for holds, size in ((0, 2), (1, 4)):
        rule = Apa(holds=holds, window=0)
        assert rule.tick(seen(0, text(kv=0.25), 4)) == 2
        assert rule.tick(seen(10, text(kv=0.5), 4)) == 4
        assert rule.tick(seen(20, text(kv=0.35), 4)) == size


def test_apa_averages_half_a_minute_and_keeps_the_size_without_metrics() -> None:
    rule = Apa()
    assert rule.tick(seen(0, text(kv=0.5), 2)) == 2
    assert rule.tick(seen(10, text(kv=0.6), 2)) == 2  # mean 0.55
    assert rule.tick(seen(20, text(kv=0.7), 2)) == 3  # mean 0.6
    assert rule.tick(seen(30, None, 2)) is None
    assert rule.tick(seen(40, text(kv=0.9), 0, wanted=2)) is None


@pytest.mark.parametrize(
    ("stable", "panic", "replicas", "wanted"),
    [
        (0.9, 0.9, 4, 2),  # ceil(0.9 / 0.5): a share of a cache never asks for more than two
        (1.0, 1.0, 9, 4),  # halves at most
        (1.3, 1.3, 1, 2),  # doubles at most
        (0.2, 0.6, 1, 2),  # three times the stable mean: panic
        (0.4, 0.6, 1, 1),
        (0.0, 0.6, 1, 2),  # no stable mean is panic
        (0.1, 0.1, 8, 4),
    ],
)
def test_aibrixs_kpa_divides_the_mean_over_pods_by_the_target(
    stable: float, panic: float, replicas: int, wanted: int
) -> None:
    assert AibrixKpa().wanted(stable, panic, replicas) == wanted


def test_aibrixs_kpa_asks_for_the_fleet_when_mended_and_keeps_the_size_without_metrics() -> None:
    assert AibrixKpa().tick(seen(0, text(kv=0.9), 4)) == 2
    assert AibrixKpa(per_fleet=1).tick(seen(0, text(kv=0.9), 4)) == 8  # ceil(3.6 / 0.5), doubled at most
    rule = AibrixKpa(per_fleet=1, holds=1)
    assert rule.tick(seen(0, text(kv=0.5), 4)) == 4
    assert rule.tick(seen(10, text(kv=0.1), 4)) == 4  # the cooldown of 300 s holds
    assert rule.tick(seen(20, None, 4)) is None
    assert rule.tick(seen(30, text(kv=0.9), 0, wanted=4)) is None


def test_kubeais_mean_begins_with_zeros() -> None:
    sizes = follow(KubeAi(), text(running=300), 600, 1)
    assert sizes[19] == 1  # 20 of 60 slots: mean 100
    assert sizes[20] == 2
    assert sizes[-1] == 3


def test_kubeai_shrinks_with_the_fourth_decision_in_a_row() -> None:
    rule = KubeAi(window=10)
    assert follow(rule, text(running=250), 0, 1) == [3]
    assert [rule.tick(seen(at, text(running=50), 3)) for at in (10, 20, 30, 40)] == [None, None, None, 1]


def test_kubeai_counts_anew_after_any_other_decision_and_not_while_metrics_fail() -> None:
    rule = KubeAi(window=10)
    quiet, busy = text(running=50), text(running=250)
    shown = (quiet, quiet, busy, quiet, None, quiet, quiet, quiet)
    answers = [rule.tick(seen(at * 10.0, each, 3)) for at, each in enumerate(shown)]
    assert answers == [None, None, 3, None, None, None, None, 1]


def test_ray_serve_grows_after_half_a_minute_and_shrinks_after_ten() -> None:
    rule = RayServe()
    assert follow(rule, text(running=8), 40, 1) == [1, 1, 1, 4, 4]
    sizes = follow(rule, text(), 700, 4, start=50)
    assert sizes[59] == 4
    assert sizes[60] == 1


def test_ray_serve_begins_its_delay_anew_when_the_direction_turns_or_readings_end() -> None:
    rule = RayServe(look_back=10)
    busy, calm = text(running=8), text(running=2)
    shown = [busy, busy, calm, calm, busy, busy, busy, busy]
    assert [rule.tick(seen(at * 10.0, each, 1)) for at, each in enumerate(shown)] == [None] * 6 + [None, 4]
    rule = RayServe(look_back=10)
    shown_or_none = [busy, busy, None, None, busy, busy, busy, busy]
    assert [rule.tick(seen(at * 10.0, each, 1)) for at, each in enumerate(shown_or_none)] == [None] * 7 + [4]


def test_chiron_style_keeps_a_share_of_replicas_idle() -> None:
    rule = ChironStyle(1.0, 0.06)
    assert rule.backpressure(0.03, 0.2) == pytest.approx(0.5)
    assert rule.backpressure(0.03, 3.0) == 2.0
    assert rule.wanted(0.67, 6) == 6
    assert rule.wanted(1.0, 4) == 6
    assert rule.wanted(2.0, 4) == 8  # at most double


def _traffic(ended: int, per_token: float, waiting: int = 0, prompt: float = 0.0, kv: float = 0.0) -> str:
    counters = Counters(waiting=waiting, finished=ended, prompt_tokens=ended * prompt, kv_usage=kv)
    for _ in range(ended):
        counters.ended(per_token)
    return page(counters, 1000, 10)


def test_chiron_style_grows_at_once_and_shrinks_by_one_after_its_hold() -> None:
    rule = ChironStyle(1.0, 0.06, hold=60)
    assert rule.tick(seen(0, _traffic(0, 0.01), 4)) is None
    assert rule.tick(seen(30, _traffic(30, 0.059, waiting=3), 4)) == 8  # 3 s of queue at one a second
    quiet = [rule.tick(seen(at, _traffic(30 + at, 0.005), 8)) for at in (90, 120, 150, 180)]
    assert quiet == [None, None, 7, None]
    assert rule.tick(seen(210, None, 8)) is None
    assert rule.tick(seen(240, _traffic(300, 0.005), 8)) is None  # the hold began anew


def test_sageserve_forecasts_yesterdays_hour_and_what_lasts_of_the_difference() -> None:
    assert next_hour([]) == 0
    assert next_hour([3.0, 5.0]) == 5.0
    day = [float(hour) for hour in range(24)]
    assert next_hour(day) == 0.0
    assert next_hour([*day, 10.0]) == 1.0  # one difference shows nothing of how it lasts
    assert next_hour([*day, 4.0, 3.0]) == pytest.approx(2 + 0.5 * 2)  # 4 above, then 2: half lasts
    assert next_hour([*day, -40.0, -39.0]) == 0.0


def test_sageserves_hourly_floor_comes_from_the_hours_largest_minute() -> None:
    rule = SageServeStyle(prefill_rate=200, down=0.01)
    ready = 1
    for minute in range(62):
        ended = 60 * minute
        answer = rule.tick(seen(minute * 60.0, _traffic(ended, 0.02, prompt=250, kv=0.3), ready))
        ready = ready if answer is None else answer
        if minute < 60:
            assert ready == 1
    assert ready == 3  # 250 tokens a second, 100 for each replica


def test_sageserve_steps_by_one_outside_its_band_and_waits_for_starts() -> None:
    assert [SageServeStyle(200).step(kv) for kv in (0.2, 0.25, 0.5, 0.51)] == [-1, 0, 0, 1]
    assert SageServeStyle(200).tick(seen(0, text(kv=0.6), 2)) == 3
    assert SageServeStyle(200).tick(seen(0, text(kv=0.6), 2, starting=1)) == 3
    assert SageServeStyle(200).tick(seen(0, None, 2)) is None
