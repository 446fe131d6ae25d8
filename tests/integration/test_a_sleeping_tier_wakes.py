"""A tier of mode Auto at zero replicas: an annotation wakes it once, an old time does not, and another tier is not meant."""

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.live import Object, replicas, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

if TYPE_CHECKING:
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

WAKE: Final = "tierwright.dev/wake"
SLEEPS: Final = {
    "mode": "Auto",
    "minReplicas": 0,
    "maxReplicas": 4,
    "objectives": {"timeToFirstToken": "500ms"},
}


def sleeping(name: str, speed: str) -> Object:
    return tier(name, speed=speed, scaling=SLEEPS, replicas=0)


def annotate(k8s: Kubernetes, name: str, value: str) -> None:
    k8s.patch("InferenceTier", name, {"metadata": {"annotations": {WAKE: value}}})


def test_a_changed_annotation_wakes_a_tier_and_an_old_time_does_not(
    k8s: Kubernetes, operator: "OperatorProcess"
) -> None:
    for name in ("sleeps", "other"):
        k8s.apply(sleeping(name, name))
    for name in ("sleeps", "other"):
        wait_condition(k8s, "Ready", "True", "ScaledToZero", name=name)
    annotate(k8s, "sleeps", "2026-01-01T00:00:00Z")
    holds_for(lambda: replicas(k8s, "sleeps") == 0, "a time long past wakes nobody", 12)
    annotate(k8s, "sleeps", "ticket-7")
    eventually(lambda: replicas(k8s, "sleeps") == 1, "the tier is woken", 40)
    wait_ready(k8s, "sleeps")
    assert replicas(k8s, "other") == 0


def test_in_mode_manual_the_annotation_does_nothing(k8s: Kubernetes, operator: "OperatorProcess") -> None:
    k8s.apply(tier("manual", scaling={"objectives": SLEEPS["objectives"]}, replicas=0))
    wait_condition(k8s, "Ready", "True", "ScaledToZero", name="manual")
    annotate(k8s, "manual", "ticket-7")
    holds_for(lambda: replicas(k8s, "manual") == 0, "spec.replicas decides", 12)
