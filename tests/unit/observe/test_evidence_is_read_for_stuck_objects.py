"""Events are read for objects that their own status does not explain, and for no others."""

from datetime import datetime
from typing import Any

import pytest

from tests.unit.control.pods import (
    NOW,
    container,
    deployment,
    pod,
    ready_pod,
    terminated,
    unschedulable,
    waiting,
)
from tierwright.observe.evidence import is_starting, subjects, template_volumes
from tierwright.observe.pods import pod_view, volume_claim_view

CLAIMS, EPHEMERAL = ("weights",), ("compile",)
YOUNG = "2026-11-30T11:59:58Z"


def wanted(*pods: dict[str, Any], now: datetime = NOW) -> tuple[tuple[str, str], ...]:
    return subjects([pod_view(each) for each in pods], CLAIMS, EPHEMERAL, now)


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (ready_pod("a"), ()),
        (pod("a"), ()),
        (pod("a", deleting=True, containers=[container(state=waiting("ContainerCreating"))]), ()),
        (pod("a", created=YOUNG, containers=[container(state=waiting("ContainerCreating"))]), ()),
        (pod("a", containers=[container(state=waiting("ContainerCreating"))]), (("Pod", "a"),)),
        (pod("a", containers=[]), (("Pod", "a"),)),
        (pod("a", containers=[container(state=waiting("ImagePullBackOff"))]), (("Pod", "a"),)),
        (pod("a", containers=[container(restarts=1, last_state=terminated(137))]), (("Pod", "a"),)),
        (pod("a", containers=[container(restarts=1, last_state=terminated(0))]), (("Pod", "a"),)),
        (
            unschedulable("no", "a"),
            (("PersistentVolumeClaim", "weights"), ("PersistentVolumeClaim", "a-compile")),
        ),
    ],
    ids=[
        "ready",
        "loading",
        "leaving",
        "young",
        "being set up",
        "nothing known of its containers",
        "image",
        "killed",
        "ended in good order, perhaps since it was told to",
        "unplaced: its volumes",
    ],
)
def test_subjects(live: dict[str, Any], expected: tuple[tuple[str, str], ...]) -> None:
    assert wanted(live) == expected


def test_many_stuck_pods_cost_few_requests() -> None:
    stuck = [pod(f"p{number:02}", containers=[]) for number in range(50)]
    assert len(wanted(*stuck)) == 6


def test_pod_of_unknown_age_is_looked_into() -> None:
    assert wanted(pod("a", created="", containers=[])) == (("Pod", "a"),)


@pytest.mark.parametrize(
    ("live", "starting"),
    [(pod(created=YOUNG), True), (pod(), False), (pod(created=YOUNG, ready=True), False)],
)
def test_young_pod_is_looked_at_again(live: dict[str, Any], starting: bool) -> None:
    assert is_starting([pod_view(live)], NOW) is starting


def test_volumes_are_those_of_the_template() -> None:
    live = deployment(1)
    live["spec"]["template"] = {
        "spec": {
            "volumes": [
                {"name": "weights", "persistentVolumeClaim": {"claimName": "llama-weights"}},
                {"name": "compile", "ephemeral": {}, "x": 1},
                {"name": "scratch", "emptyDir": {}},
            ]
        }
    }
    live["spec"]["template"]["spec"]["volumes"][1]["ephemeral"] = {"volumeClaimTemplate": {}}
    assert template_volumes(live) == (("llama-weights",), ("compile",))
    assert template_volumes(None) == ((), ())


def test_claim_without_a_status_is_pending() -> None:
    lost = volume_claim_view({"metadata": {"name": "c"}, "status": {"phase": "Lost"}})
    assert (lost.name, lost.phase) == ("c", "Lost")
    assert volume_claim_view({"metadata": {"name": "c"}}).phase == "Pending"
