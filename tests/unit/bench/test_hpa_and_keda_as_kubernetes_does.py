"""The HPA's arithmetic, tolerance, windows and steps as its source has them, and KEDA and the usual targets on top."""

import pytest

from bench.autoscale.baselines.hpa import Behaviour, HpaKv, HpaRunning, Steps, for_average, for_mean
from bench.autoscale.baselines.keda import KedaWaiting
from bench.autoscale.baselines.static import Static
from tests.unit.bench.snapshots import follow, seen, text


@pytest.mark.parametrize(
    ("total", "target", "replicas", "wanted"),
    [
        (10, 5, 1, 2),
        (11, 5, 1, 3),
        (5.4, 5, 1, 1),  # 1.08: within the tolerance
        (5.6, 5, 1, 2),  # 1.12
        (0, 5, 3, 0),
        (46, 5, 10, 10),  # 0.92: within the tolerance
        (44, 5, 10, 9),
    ],
)
def test_an_average_value_asks_for_the_total_over_the_target(
    total: float, target: float, replicas: int, wanted: int
) -> None:
    assert for_average(total, target, replicas) == wanted


@pytest.mark.parametrize(
    ("mean", "ready", "replicas", "wanted"),
    [
        (0.9, 2, 2, 4),  # 1.8 x 2
        (0.9, 2, 3, 4),  # one idle: 1.8 x 2 / 3 = 1.2, of 3
        (0.9, 2, 4, 4),  # two idle: 0.9 turns round, so nothing changes
        (0.25, 4, 4, 2),
        (0.52, 4, 4, 4),  # within the tolerance
        (0.25, 2, 4, 1),  # those that start do not count when it shrinks
    ],
)
def test_a_mean_over_pods_counts_those_that_start_as_idle_when_it_grows(
    mean: float, ready: int, replicas: int, wanted: int
) -> None:
    assert for_mean(mean, 0.5, ready, replicas) == wanted


def test_growth_is_at_once_and_at_most_four_or_double_in_fifteen_seconds() -> None:
    assert Behaviour(1, 24).follow(0, 1, 20) == 5
    assert Behaviour(1, 24).follow(0, 6, 20) == 12
    rule = Behaviour(1, 24)
    assert rule.follow(0, 1, 20) == 5
    assert rule.follow(10, 5, 20) == 5  # still the same 15 s
    assert rule.follow(15, 5, 20) == 10


def test_the_fleet_shrinks_to_the_most_asked_within_five_minutes() -> None:
    rule = Behaviour(1, 24)
    assert rule.follow(0, 8, 6) == 8  # the size it was found at counts as asked
    assert rule.follow(299, 8, 3) == 8
    assert rule.follow(300, 8, 4) == 4
    assert rule.follow(599, 4, 2) == 4
    assert rule.follow(600, 4, 2) == 2  # the four is 300 s old


def test_an_up_window_grows_to_the_least_asked_in_it() -> None:
    rule = Behaviour(1, 24, up_window=30)
    assert rule.follow(0, 2, 6) == 2
    assert rule.follow(20, 2, 4) == 2
    assert rule.follow(31, 2, 6) == 4


def test_one_down_in_two_minutes() -> None:
    rule = Behaviour(1, 24, down_window=0, down=Steps(120.0, pods=1))
    assert [rule.follow(at, size, 1) for at, size in ((0, 5), (60, 4), (119, 4), (120, 4))] == [4, 4, 4, 3]


def test_bounds_hold_whatever_is_asked() -> None:
    assert Behaviour(2, 4).follow(0, 4, 50) == 4
    assert Behaviour(2, 4, down_window=0).follow(0, 4, 0) == 2


def test_keda_counts_waiting_requests_and_takes_no_series_for_none() -> None:
    assert KedaWaiting().tick(seen(0, text(waiting=12), 1)) == 3
    rule = KedaWaiting()
    assert follow(rule, None, 290, 3) == [3] * 30
    assert follow(rule, None, 40, 3, start=300)[-1] == 1  # an outage shrinks it once the window has passed


def test_the_loop_runs_every_fifteen_seconds_on_average() -> None:
    rule = KedaWaiting()
    answers = [rule.tick(seen(now, text(waiting=5), 1)) for now in (0, 10, 20, 30, 40, 50, 60)]
    assert [answer is not None for answer in answers] == [True, False, True, True, False, True, True]


def test_running_and_waiting_requests_share_one_target() -> None:
    assert HpaRunning(16).tick(seen(0, text(running=30, waiting=10), 2)) == 3
    assert HpaRunning(16).tick(seen(0, None, 2)) is None
    assert HpaRunning(16).tick(seen(0, "up 1\n", 2)) is None


def test_kv_use_is_a_mean_over_ready_pods() -> None:
    assert HpaKv(0.7).tick(seen(0, text(kv=0.9), 2)) == 3
    assert HpaKv(0.7).tick(seen(0, text(kv=0.72), 2)) == 2
    assert HpaKv(0.7).tick(seen(0, None, 2)) is None
    assert HpaKv(0.7).tick(seen(0, text(kv=0.9), 0, wanted=2)) is None


def test_a_static_fleet_stays() -> None:
    assert follow(Static(3), None, 50, 1) == [3] * 6
