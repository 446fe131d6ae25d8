"""Events on a real API server: one per cause, counted, across restarts, and never in the way."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from tests.support.kubernetes import Kubernetes
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.events import QUIET_TIME, EventRecorder
from tierwright.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
async def client(cluster: "Cluster") -> AsyncIterator[HttpKubeClient]:
    connected = await HttpKubeClient.connect(str(cluster.kubeconfig))
    try:
        yield connected
    finally:
        await connected.close()


def recorder(client: HttpKubeClient, clock: Clock) -> tuple[EventRecorder, Metrics]:
    metrics = Metrics(CollectorRegistry(), "1")
    return EventRecorder(client, metrics, clock), metrics


def counted(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("tierwright_events_total", {"result": result}) or 0.0


async def test_a_repeated_event_is_written_once_in_ten_minutes_and_its_count_rises(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    about = k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "about"}})
    clock = Clock()
    events, metrics = recorder(client, clock)
    for _ in range(5):
        await events.record(about, "Warning", "Unschedulable", "no node fits")
        clock.now += timedelta(seconds=30)
    (first,) = k8s.list("Event")
    assert (first["count"], first["type"], first["reason"]) == (1, "Warning", "Unschedulable")
    assert first["involvedObject"]["uid"] == about["metadata"]["uid"]
    assert (counted(metrics, "written"), counted(metrics, "repeated")) == (1, 4)

    clock.now += QUIET_TIME
    await events.record(about, "Warning", "Unschedulable", "no node fits")
    (again,) = k8s.list("Event")
    assert again["count"] == 6
    assert again["firstTimestamp"] == "2026-11-30T12:00:00Z"
    assert again["lastTimestamp"] > first["lastTimestamp"]


async def test_another_message_is_another_event(client: HttpKubeClient, k8s: Kubernetes) -> None:
    about = k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "about"}})
    events, _ = recorder(client, Clock())
    await events.record(about, "Normal", "Serving", "1 of 1 ready")
    await events.record(about, "Normal", "Serving", "2 of 2 ready")
    assert {each["message"] for each in k8s.list("Event")} == {"1 of 1 ready", "2 of 2 ready"}


async def test_a_restart_goes_on_counting_the_same_event(client: HttpKubeClient, k8s: Kubernetes) -> None:
    about = k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "about"}})
    clock = Clock()
    for _ in range(3):
        events, _ = recorder(client, clock)
        await events.record(about, "Normal", "Serving", "ready")
        clock.now += timedelta(hours=1)
    (event,) = k8s.list("Event")
    assert (event["count"], event["firstTimestamp"]) == (3, "2026-11-30T12:00:00Z")


async def test_a_message_that_is_too_long_is_cut_and_not_lost(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    about = k8s.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "about"}})
    events, _ = recorder(client, Clock())
    await events.record(about, "Normal", "Serving", "x" * 5000)
    (event,) = k8s.list("Event")
    assert event["message"].startswith("xxx")
    assert event["message"].endswith("…")


async def test_a_failure_is_counted_and_tried_again_and_raises_nothing(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    nowhere = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "absent", "uid": "u"},
    }
    events, metrics = recorder(client, Clock())
    await events.record(nowhere, "Normal", "Serving", "ready")
    await events.record(nowhere, "Normal", "Serving", "ready")
    assert (counted(metrics, "failed"), counted(metrics, "written")) == (2, 0)
