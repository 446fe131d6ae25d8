"""A Deployment whose controller has not yet looked says nothing new: a foreign annotation raises its generation too."""

from dataclasses import replace

from tests.unit.control.pods import deployment, get, ready_pod, snapshot, status_of
from tierwright.api.conditions import ConditionType
from tierwright.observe.snapshot import Snapshot

BOTH = (ConditionType.RECONCILING, ConditionType.STALLED)


PODS = (ready_pod("llama-fast-1"), ready_pod("llama-fast-2"))


def annotated_just_now() -> Snapshot:
    """Settled, but for a generation that the Deployment's controller has not seen."""
    live = deployment()
    live["metadata"]["generation"] = live["status"]["observedGeneration"] + 1
    return snapshot(*PODS, workload=live, wanted=2)


def test_what_was_said_stays_until_the_controller_has_looked() -> None:
    settled = status_of(snapshot(*PODS, workload=deployment(), wanted=2))
    assert get(settled, ConditionType.RECONCILING).reason == "Settled"
    assert status_of(annotated_just_now(), settled) == settled


def test_an_edit_of_the_tier_is_told_before_the_controller_has_looked() -> None:
    view = annotated_just_now()
    settled = status_of(snapshot(*PODS, workload=deployment(), wanted=2))
    edited = status_of(replace(view, generation=view.generation + 1), settled)
    assert get(edited, ConditionType.RECONCILING).status == "True"


def test_without_an_earlier_status_it_counts_as_under_way() -> None:
    assert get(status_of(annotated_just_now()), ConditionType.RECONCILING).status == "True"


def test_a_reason_that_an_earlier_release_wrote_is_not_kept() -> None:
    settled = status_of(snapshot(*PODS, workload=deployment(), wanted=2))
    old = settled.model_copy(
        update={
            "conditions": [
                each.model_copy(update={"reason": "OfOld"}) if each.type in BOTH else each
                for each in settled.conditions
            ]
        }
    )
    assert get(status_of(annotated_just_now(), old), ConditionType.RECONCILING).reason != "OfOld"
