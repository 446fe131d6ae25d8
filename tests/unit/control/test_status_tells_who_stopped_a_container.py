"""Whether the kubelet stopped a container, and for which probe, is told by its Events on that run alone."""

import pytest

from tests.unit.control.pods import container, event, pod, ready, running, snapshot, terminated
from tierwright.api.conditions import Reason
from tierwright.kube.resources import Object

POD = "llama-fast-1"
STARTED, EARLIER, LATER = "2026-11-30T11:00:00Z", "2026-11-30T10:00:00Z", "2026-11-30T11:00:30Z"


def stopped(probe: str, seen: str, of: str = "engine") -> Object:
    """The kubelet's Event when it stops a container."""
    words = f"Container {of} failed {probe} probe, will be restarted"
    return {**event("Pod", POD, "Killing", words), "lastTimestamp": seen}


def reason(code: int, *events: Object, started: str = STARTED) -> str:
    """Of a tier whose engine, started at ``started``, ended with this exit code."""
    ended = terminated(code)
    ended["terminated"]["startedAt"] = started
    view = snapshot(
        pod(POD, containers=[container(restarts=1, state=running(), last_state=ended)]), events=list(events)
    )
    return ready(view).reason


@pytest.mark.parametrize("code", [0, 1, 137, 143])
def test_an_engine_stopped_at_its_start_is_told_as_such_whatever_its_exit_code(code: int) -> None:
    assert reason(code, stopped("startup", LATER)) == Reason.STARTUP_TIMEOUT


def test_the_latest_probe_is_the_cause() -> None:
    assert reason(137, stopped("liveness", LATER), stopped("startup", EARLIER)) == Reason.ENGINE_CRASHED


@pytest.mark.parametrize(
    "told",
    [
        stopped("startup", EARLIER),
        stopped("startup", LATER, of="proxy"),
        event("Pod", POD, "Unhealthy", "Startup probe failed: connection refused"),
    ],
    ids=["an earlier run", "another container", "failed probes alone"],
)
def test_an_engine_that_ended_by_itself_has_crashed(told: Object) -> None:
    assert reason(137, told) == Reason.ENGINE_CRASHED


@pytest.mark.parametrize(("seen", "started"), [("", STARTED), (LATER, ""), ("2026-11-30T11:00:30", STARTED)])
def test_times_that_are_not_known_do_not_hide_the_cause(seen: str, started: str) -> None:
    assert reason(137, stopped("startup", seen), started=started) == Reason.STARTUP_TIMEOUT
