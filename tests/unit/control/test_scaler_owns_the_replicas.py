"""The scaler's number follows mode, bounds and suspend; it keeps silent beside another autoscaler."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.control.pods import deployment, tier
from tierwright.api.conditions import Reason
from tierwright.control import scaler
from tierwright.control.scaler import Held
from tierwright.observe.snapshot import ScalingView

AUTO = {"mode": "Auto", "minReplicas": 2, "maxReplicas": 6, "objectives": {"timeToFirstToken": "500ms"}}


@pytest.mark.parametrize(
    ("spec", "held", "wanted", "reason"),
    [
        ({"replicas": 3}, Held(), 3, Reason.MANUAL),
        ({"replicas": 3}, Held(live=7, reported=7), 3, Reason.MANUAL),
        ({"replicas": 0}, Held(live=7), 0, Reason.MANUAL),
        ({"replicas": 3, "scaling": {**AUTO, "mode": "Recommend"}}, Held(live=7), 3, Reason.RECOMMENDING),
        ({"replicas": 3, "scaling": AUTO}, Held(), 3, Reason.START_VALUE),
        ({"replicas": 1, "scaling": AUTO}, Held(), 2, Reason.START_VALUE),
        ({"replicas": 9, "scaling": AUTO}, Held(), 6, Reason.START_VALUE),
        ({"replicas": 1, "scaling": AUTO}, Held(live=5, reported=4), 5, Reason.START_VALUE),
        ({"replicas": 1, "scaling": AUTO}, Held(live=None, reported=4), 4, Reason.START_VALUE),
        ({"replicas": 1, "scaling": AUTO}, Held(live=40), 6, Reason.START_VALUE),
        ({"replicas": 3, "scaling": {**AUTO, "minReplicas": 0}}, Held(live=0), 0, Reason.START_VALUE),
        ({"replicas": 3, "scaling": AUTO}, Held(live=0, reported=0), 3, Reason.START_VALUE),
        ({"replicas": 3, "suspend": True}, Held(live=3), 0, Reason.SUSPENDED),
        ({"replicas": 3, "suspend": True, "scaling": AUTO}, Held(live=3), 0, Reason.SUSPENDED),
    ],
    ids=[
        "manual",
        "manual: whatever was there",
        "manual: none",
        "recommend is manual",
        "auto: the start value",
        "auto: the minimum",
        "auto: the maximum",
        "auto: what runs stays",
        "auto: the workload was scaled or deleted by hand",
        "auto: the maximum was lowered",
        "auto: zero stays zero",
        "auto: zero below the bounds was left by a suspension",
        "suspended",
        "auto and suspended",
    ],
)
def test_wanted_replicas(spec: dict[str, Any], held: Held, wanted: int, reason: Reason) -> None:
    view = scaler.decide(tier(**spec), held, None)
    assert (view.wanted, view.reason) == (wanted, reason)
    assert view.suspended == (reason is Reason.SUSPENDED)


@pytest.mark.parametrize("mode", ["Auto", "Recommend"])
def test_words_of_before_the_mode_changed_are_not_told(mode: str) -> None:
    former = ScalingView(None, None, Reason.MANUAL, "", follows_load=False)
    changed = tier(replicas=3, scaling={**AUTO, "mode": mode})
    assert scaler.decide(changed, Held(live=3), None, former) == scaler.decide(changed, Held(live=3), None)


def test_another_autoscaler_on_the_workload_makes_the_scaler_silent() -> None:
    view = scaler.decide(tier(scaling=AUTO), Held(live=3), "HorizontalPodAutoscaler h")
    assert (view.wanted, view.reason) == (None, Reason.CONFLICT)
    assert "HorizontalPodAutoscaler h" in view.message


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 10), st.integers(1, 20))
def test_mode_auto_stays_within_its_bounds_and_holds_still(
    start: int, live: int, low: int, more: int
) -> None:
    bounded = tier(replicas=start, scaling={**AUTO, "minReplicas": low, "maxReplicas": low + more})
    first = scaler.decide(bounded, Held(live=live), None).wanted
    assert first is not None
    assert low <= first <= low + more
    assert scaler.decide(bounded, Held(live=first), None).wanted == first


def owned_by(*managers: str, replicas: int = 2) -> dict[str, Any]:
    live = deployment(replicas)
    live["metadata"]["managedFields"] = [
        {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        for manager in managers
    ]
    live["metadata"]["managedFields"].append({"manager": "kubelet", "fieldsV1": {"f:status": {}}})
    return live


@pytest.mark.parametrize(
    ("live", "wanted", "needed"),
    [
        (owned_by("tierwright-scaler"), 2, False),
        (owned_by("tierwright", "tierwright-scaler"), 2, False),
        (owned_by("tierwright"), 2, True),
        (owned_by("kubectl", replicas=5), 2, True),
        (owned_by("tierwright-scaler"), 3, True),
        (owned_by(), 2, True),
    ],
)
def test_scaler_applies_when_the_number_or_the_owner_is_wrong(
    live: dict[str, Any], wanted: int, needed: bool
) -> None:
    assert scaler.needs_scaling(live, wanted) is needed


def test_fewer_replicas_are_asked_for_only_of_the_workload_as_it_was_looked_at() -> None:
    live = deployment(4)
    live["metadata"]["resourceVersion"] = "77"
    assert scaler.scale_manifest(live, 3)["metadata"]["resourceVersion"] == "77"
    for wanted in (4, 5):
        assert "resourceVersion" not in scaler.scale_manifest(live, wanted)["metadata"]


@pytest.mark.parametrize(
    ("live", "wanted", "instead_of", "asked"),
    [
        (5, 4, 5, 4),  # decided on what there is
        (6, 4, 5, 6),  # another operator has asked for more meanwhile
        (4, 3, 5, 4),  # another operator has taken one away meanwhile
        (4, 4, 5, 4),  # done
        (3, 4, 5, 4),  # another operator has taken two away meanwhile
        (2, 4, None, 4),
        (5, 3, None, 5),
    ],
)
def test_a_decision_for_fewer_is_about_the_number_that_there_was(
    live: int, wanted: int, instead_of: int | None, asked: int
) -> None:
    view = ScalingView(wanted, wanted, Reason.DEMAND_FELL, "", True, instead_of=instead_of)
    spec = tier(scaling={**AUTO, "minReplicas": 1, "maxReplicas": 9})
    assert scaler.decide(spec, Held(live=live), None, view).wanted == asked
    # What a person wrote on the workload is put back at once: the scaler has lost the field then.
    assert scaler.decide(spec, Held(live=None, reported=live), None, view).wanted == wanted


@pytest.mark.parametrize("words", ["3 replicas kept: a, b; c (ready=1)", "two\nlines recommended, Steady: x"])
def test_a_recommendation_can_be_read_back_from_the_condition(words: str) -> None:
    spec = tier(scaling={"mode": "Recommend", "objectives": {"timeToFirstToken": "500ms"}})
    for recommended in (None, 1, 3):
        view = ScalingView(None, recommended, Reason.DEMAND_GREW, words, True)
        message = scaler.decide(spec, Held(live=1), None, view).message
        assert scaler.advised(message) == (Reason.DEMAND_GREW, words)
    assert scaler.advised(scaler.decide(spec, Held(live=1), None, None).message) is None
    assert scaler.advised("nothing is recommended, Nonsense: x") is None


def test_scaler_applies_nothing_but_replicas_and_to_that_very_object() -> None:
    assert scaler.scale_manifest(deployment(2), 4) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama-fast", "namespace": "serving", "uid": "d-1"},
        "spec": {"replicas": 4},
    }


@pytest.mark.parametrize(
    ("live", "replicas", "sent"),
    [
        (None, 3, 3),
        (None, None, None),
        (owned_by("tierwright", replicas=2), 3, 3),
        (owned_by("kubectl", replicas=2), 3, 3),
        (owned_by("tierwright", "tierwright-scaler", replicas=4), 3, None),
        (owned_by("tierwright-scaler", replicas=4), 3, None),
        (owned_by("tierwright", replicas=4), None, 4),
        (owned_by("kube-controller-manager", replicas=4), None, None),
    ],
    ids=[
        "creation",
        "creation beside another autoscaler",
        "the operator ended before its scaler spoke",
        "the scaler lost the field",
        "the scaler owns it, once both did",
        "the scaler owns it",
        "another autoscaler, and the field would fall back to 1",
        "another autoscaler owns it",
    ],
)
def test_children_manager_sends_replicas_until_the_scaler_owns_them(
    live: dict[str, Any] | None, replicas: int | None, sent: int | None
) -> None:
    bare = scaler.without_replicas(deployment(9))
    assert scaler.with_due_replicas(bare, live, replicas)["spec"].get("replicas") == sent
    assert "replicas" not in bare["spec"]


def test_autoscaler_of_another_target_is_none_of_ours() -> None:
    def hpa(kind: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": {"kind": kind, "name": name}}}

    others = [hpa("InferenceTier", "llama-fast"), hpa("Deployment", "other"), {"metadata": {"name": "x"}}]
    assert scaler.autoscaler_on("Deployment", "llama-fast", others) is None
    found = scaler.autoscaler_on("Deployment", "llama-fast", [*others, hpa("Deployment", "llama-fast")])
    assert found == "HorizontalPodAutoscaler h"
