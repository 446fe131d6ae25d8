"""Whether the kubelet stopped a container, and for which probe, is told by its Events on that run alone."""

import pytest

from tests.unit.control.pods import container, event, pod, ready, running, snapshot, terminated, tier
from tierwright.api.conditions import Reason
from tierwright.api.status import Condition
from tierwright.kube.resources import Object

POD = "llama-fast-1"
STARTED, EARLIER, LATER = "2026-11-30T11:00:00Z", "2026-11-30T10:00:00Z", "2026-11-30T11:00:30Z"


def stopped(probe: str, seen: str, of: str = "engine") -> Object:
    """The kubelet's Event when it stops a container."""
    words = f"Container {of} failed {probe} probe, will be restarted"
    return {**event("Pod", POD, "Killing", words), "lastTimestamp": seen}


def told(
    code: int, *events: Object, started: str = STARTED, finished: str = "", words: str = "", **rollout: str
) -> Condition:
    """Ready of a tier whose engine, started at ``started``, ended with this exit code."""
    ended = terminated(code, message=words)
    ended["terminated"] |= {"startedAt": started, "finishedAt": finished}
    view = snapshot(
        pod(POD, containers=[container(restarts=1, state=running(), last_state=ended)]),
        events=list(events),
        of=tier(rollout=rollout),
    )
    return ready(view)


def reason(code: int, *events: Object, started: str = STARTED) -> str:
    """The reason alone."""
    return told(code, *events, started=started).reason


@pytest.mark.parametrize("code", [0, 1, 137, 143])
def test_an_engine_stopped_at_its_start_is_told_as_such_whatever_its_exit_code(code: int) -> None:
    assert reason(code, stopped("startup", LATER)) == Reason.STARTUP_TIMEOUT


def test_the_latest_probe_is_the_cause() -> None:
    assert reason(137, stopped("liveness", LATER), stopped("startup", EARLIER)) == Reason.ENGINE_CRASHED


@pytest.mark.parametrize(
    "heard",
    [
        stopped("startup", EARLIER),
        stopped("startup", LATER, of="proxy"),
        event("Pod", POD, "Unhealthy", "Startup probe failed: connection refused"),
    ],
    ids=["an earlier run", "another container", "failed probes alone"],
)
def test_an_engine_that_ended_by_itself_has_crashed(heard: Object) -> None:
    assert reason(137, heard) == Reason.ENGINE_CRASHED


@pytest.mark.parametrize(("seen", "started"), [("", STARTED), (LATER, ""), ("2026-11-30T11:00:30", STARTED)])
def test_times_that_are_not_known_do_not_hide_the_cause(seen: str, started: str) -> None:
    assert reason(137, stopped("startup", seen), started=started) == Reason.STARTUP_TIMEOUT


def test_the_message_has_the_budget_the_length_of_the_run_and_the_last_words() -> None:
    condition = told(
        137,
        stopped("startup", LATER),
        finished="2026-11-30T11:01:05Z",
        words="loading shard 3 of 8",
        startupTimeout="60s",
    )
    assert "was not ready in time (60 s) and was killed after 65 s, 1 restart" in condition.message
    assert "last words: loading shard 3 of 8" in condition.message


@pytest.mark.parametrize(
    ("code", "finished", "expected"),
    [
        pytest.param(137, "2026-11-30T11:01:05Z", Reason.STARTUP_TIMEOUT, id="killed when its time was over"),
        pytest.param(0, "2026-11-30T11:01:05Z", Reason.STARTUP_TIMEOUT, id="ended in good order then"),
        pytest.param(1, "2026-11-30T11:01:05Z", Reason.ENGINE_CRASHED, id="an error of its own"),
        pytest.param(137, "2026-11-30T11:00:50Z", Reason.ENGINE_CRASHED, id="before its time was over"),
        pytest.param(137, "2026-11-30T15:00:00Z", Reason.ENGINE_CRASHED, id="long after"),
        pytest.param(137, "", Reason.ENGINE_CRASHED, id="nobody knows when"),
    ],
)
def test_without_events_the_length_of_the_run_tells(code: int, finished: str, expected: Reason) -> None:
    assert told(code, finished=finished, startupTimeout="60s").reason == expected


def test_another_probe_that_the_kubelet_names_is_believed() -> None:
    condition = told(137, stopped("liveness", LATER), finished="2026-11-30T11:01:05Z", startupTimeout="60s")
    assert condition.reason == Reason.ENGINE_CRASHED
