"""Pods and pages become an observation: ages of starts, measured starts, what has no room, which pods do not tell."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.control.pods import condition, container, pod, tier, waiting
from tests.unit.observe.engine_page import page
from tierwright.control.measuring import STANDS_FOR, PodRecord, measure, told_for
from tierwright.control.observation import live_pods, observation_of
from tierwright.control.pod_samples import LatencyObjectives
from tierwright.control.start_times import measured_starts
from tierwright.control.tier_settings import (
    LoopTiming,
    has_objectives,
    latency_objectives,
    tier_settings,
)
from tierwright.observe.metrics import parse
from tierwright.observe.readings import Scraped, ScrapeFault

Object = dict[str, Any]
CREATED = 1_796_036_400.0
"""2026-11-30T11:00:00Z, when the pods of these tests are made."""
NOW = CREATED + 600
OBJECTIVES = LatencyObjectives(0.5, 0.05)


def ready(name: str, since: str = "2026-11-30T11:01:40Z", **fields: Any) -> Object:
    """A pod that became ready at that time."""
    return pod(name, ready=True, conditions=[condition("Ready", "True", since=since)], **fields)


def seen(*pods: Object, known: set[str] | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Ages of what starts, and seconds of the starts that ended."""
    live = live_pods(pods, NOW)
    starts = measured_starts(live, known, {})
    return observation_of(live, {}, wanted=2, started=starts.seconds, now=NOW).starting, starts.seconds


def test_a_pod_on_its_way_has_its_age() -> None:
    assert seen(pod("a")) == ((600.0,), ())


def test_a_pod_that_lost_its_readiness_begins_to_wait_then() -> None:
    lost = pod("a", conditions=[condition("Ready", "False", since="2026-11-30T11:09:00Z")])
    assert seen(lost) == ((60.0,), ())


def test_a_start_that_failed_is_counted_on_by_nobody() -> None:
    crashing = pod("a", containers=[container(state=waiting("CrashLoopBackOff"))])
    assert seen(crashing) == ((math.inf,), ())


def test_a_pod_without_room_does_not_start_and_one_that_goes_is_no_replica() -> None:
    words = condition("PodScheduled", "False", "Unschedulable", "0/5 nodes are available")
    lacking = pod("a", node="", phase="Pending", containers=[], conditions=[words])
    assert seen(lacking, pod("b", deleting=True)) == ((), ())


def test_a_start_is_measured_once_and_only_if_it_was_watched_and_went_well() -> None:
    assert seen(ready("a"), known=set())[1] == (100.0,)
    assert seen(ready("a"), known={"uid-a"})[1] == ()
    assert seen(ready("a"), known=None)[1] == ()
    restarted = ready("a", containers=[container(ready=True, restarts=1)])
    assert seen(restarted, known=set())[1] == ()


def test_what_is_known_of_starts_is_bounded_by_the_pods_there_are() -> None:
    starts = measured_starts(live_pods([ready("a"), pod("b")], NOW), {"uid-b", "uid-gone"}, {})
    assert starts.known == {"uid-a", "uid-b"}


def test_times_that_cannot_be_read_are_as_good_as_now() -> None:
    broken = pod("a", created="yesterday", conditions=[condition("Ready", "False", since="soon")])
    assert seen(broken) == ((0.0,), ())


def measured(before: dict[str, Scraped], after: dict[str, Scraped], *pods: Object) -> Any:
    """What two readings tell of these pods."""
    records = {uid: PodRecord(page) for uid, page in before.items()}
    return measure(records, live_pods(pods, NOW), after, OBJECTIVES, NOW)


def at(seconds: float, **fields: Any) -> Scraped:
    """A page of that time on the reader's clock."""
    return Scraped(seconds, parse(page(**fields)))


def test_two_readings_make_a_sample_with_the_pods_age_since_ready() -> None:
    found = measured({"uid-a": at(100.0)}, {"uid-a": at(110.0, finished=60)}, ready("a"))
    (sample,) = found.samples.values()
    assert (sample.seconds, sample.arrivals, sample.age) == (10.0, 20.0, 500.0)
    assert found.silent == ()


def test_a_first_reading_makes_no_sample_and_is_no_outage() -> None:
    found = measured({}, {"uid-a": at(110.0)}, ready("a"))
    assert (found.samples, found.silent, found.newest_at) == ({}, (), None)


def test_the_same_reading_twice_is_no_interval() -> None:
    found = measured({"uid-a": at(100.0)}, {"uid-a": at(100.0)}, ready("a"))
    assert found.samples == {}


def test_a_sample_stands_until_there_is_a_newer_one_and_is_counted_once() -> None:
    pods = live_pods([ready("a")], NOW + 20)
    first = measure(
        {"uid-a": PodRecord(at(100.0))},
        pods,
        {"uid-a": at(130.0, finished=70)},
        OBJECTIVES,
        NOW,
        elapsed=10.0,
    )
    assert (first.fresh[0].seconds, first.fresh[0].arrivals) == (30.0, 30.0)
    assert (first.samples["uid-a"].seconds, first.samples["uid-a"].arrivals) == (10.0, 10.0)
    assert (first.newest_at, first.interval) == (NOW, 30.0)
    again = replace(at(130.0, finished=70), age=10.0)
    second = measure(first.records, pods, {"uid-a": again}, OBJECTIVES, NOW + 10, elapsed=10.0)
    assert (second.fresh, second.deltas) == ((), ())
    assert second.samples["uid-a"].arrivals == 10.0
    assert second.newest_at == NOW


def test_a_sample_that_is_too_old_is_told_of_and_not_counted_on() -> None:
    first = measure(
        {"uid-a": PodRecord(at(100.0))}, live_pods([ready("a")], NOW), {"uid-a": at(130.0)}, OBJECTIVES, NOW
    )
    old = {"uid-a": replace(at(130.0), age=STANDS_FOR + 1)}
    late = measure(first.records, live_pods([ready("a")], NOW), old, OBJECTIVES, NOW + STANDS_FOR)
    assert (late.samples, late.newest_at) == ({}, None)
    assert late.silent == (
        "pod a: its newest figures are more than 150 s old: the Prometheus server reads the pod too seldom",
    )


def test_a_reading_that_failed_costs_no_more_than_its_own_tick() -> None:
    pods = live_pods([ready("a")], NOW)
    lost = {"uid-a": Scraped(110.0, None, ScrapeFault.TIMED_OUT, "late")}
    first = measure({"uid-a": PodRecord(at(100.0))}, pods, lost, OBJECTIVES, NOW)
    assert (first.samples, first.records["uid-a"].told) == ({}, False)
    second = measure(first.records, pods, {"uid-a": at(120.0, finished=60)}, OBJECTIVES, NOW + 10)
    assert second.samples["uid-a"].seconds == 20.0
    gap = measure(first.records, pods, {"uid-a": at(500.0, finished=60)}, OBJECTIVES, NOW + 400)
    assert gap.samples == {}, "the mean of so long a time tells nothing of now"


def test_a_pod_is_as_old_as_it_was_when_its_sample_was_taken() -> None:
    read = {"uid-a": replace(at(110.0), age=40.0)}
    found = measure({"uid-a": PodRecord(at(100.0))}, live_pods([ready("a")], NOW), read, OBJECTIVES, NOW)
    assert (found.samples["uid-a"].age, found.newest_at) == (460.0, NOW - 40)


def test_counts_are_shared_out_and_levels_are_not() -> None:
    found = measured({"uid-a": at(100.0)}, {"uid-a": at(130.0, finished=70)}, ready("a"))
    (whole,) = found.samples.values()
    third = told_for(whole, 10.0)
    assert (third.running, third.waiting, third.token_seconds) == (
        whole.running,
        whole.waiting,
        whole.token_seconds,
    )
    assert third.first_token is not None
    assert third.first_token.requests == pytest.approx(whole.first_token.requests / 3)
    for seconds in (None, 0.0, 30.0, 60.0):
        assert told_for(whole, seconds) == whole


@pytest.mark.parametrize(("interval", "lag"), [(None, 3.0), (10.0, 3.0), (25.0, 3.0), (60.0, 60.0)])
def test_a_source_that_reads_seldom_is_reckoned_with(interval: float | None, lag: float) -> None:
    assert replace(measured({}, {}), interval=interval).lag(3.0, 10.0) == lag


def test_a_pod_that_does_not_tell_is_named_with_what_is_wrong() -> None:
    renamed = Scraped(110.0, parse("vllm:num_requests_running 3\n"))
    refused = Scraped(110.0, None, ScrapeFault.REFUSED, "status 503")
    found = measured({}, {"uid-a": renamed, "uid-b": refused}, ready("a"), ready("b"))
    assert found.silent == ("pod a: its page does not tell waiting, finished", "pod b: status 503")


def test_a_pod_that_has_just_become_ready_may_be_silent_for_a_moment() -> None:
    refused = {"uid-a": Scraped(110.0, None, ScrapeFault.UNREACHABLE, "not yet")}
    pods = live_pods([ready("a", since="2026-11-30T11:09:40Z")], NOW)
    assert measure({}, pods, refused, OBJECTIVES, NOW, grace=30.0).silent == ()
    assert measure({}, pods, refused, OBJECTIVES, NOW, grace=20.0).silent == ("pod a: not yet",)


def test_objectives_that_the_pages_cannot_resolve_are_warned_of() -> None:
    found = measured({"uid-a": at(100.0)}, {"uid-a": at(110.0)}, ready("a"))
    assert found.warnings == ()
    odd = measure(
        {"uid-a": PodRecord(at(100.0))},
        live_pods([ready("a")], NOW),
        {"uid-a": at(110.0)},
        LatencyObjectives(0.3, None),
        NOW,
    )
    assert odd.warnings[0].startswith(
        "objectives.timeToFirstToken: the engine counts latencies only at 0.1 s"
    )


AUTO = {"mode": "Auto", "maxReplicas": 6, "objectives": {"timeToFirstToken": "500ms"}}


@pytest.mark.parametrize(
    ("scaling", "field", "value"),
    [
        (AUTO, "minimum", 1),
        ({**AUTO, "minReplicas": 0}, "minimum", 0),
        (AUTO, "maximum", 6),
        ({"mode": "Recommend", "objectives": AUTO["objectives"]}, "maximum", 1000),
        ({"mode": "Recommend", "objectives": AUTO["objectives"]}, "minimum", 1),
        (AUTO, "attainment", 0.95),
        ({**AUTO, "attainment": "1"}, "attainment", 0.9999),
        (AUTO, "cold_start", 180.0),
        ({**AUTO, "coldStart": "1m30s"}, "cold_start", 90.0),
        (AUTO, "hold", 600.0),
        ({**AUTO, "scaleDown": {"stabilization": "5m"}}, "hold", 300.0),
        (AUTO, "tick", 5.0),
        (AUTO, "lag", 2.0),
        (AUTO, "accelerator", "nvidia"),
    ],
)
def test_the_spec_sets_what_the_policy_goes_by(scaling: Object, field: str, value: object) -> None:
    assert getattr(tier_settings(tier(scaling=scaling), LoopTiming(5.0, 2.0)), field) == value


def test_a_tier_without_objectives_is_not_measured() -> None:
    assert not has_objectives(tier())
    assert not has_objectives(tier(scaling={"objectives": {}}))
    assert has_objectives(tier(scaling=AUTO))
    assert latency_objectives(tier(scaling=AUTO)) == LatencyObjectives(0.5, None)
