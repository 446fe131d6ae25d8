"""Every way in which pods do not serve is named by its reason, with words a person can act on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.control.pods import (
    NOW,
    get,
    ready,
    snapshot,
    status_of,
)
from tests.unit.control.troubles import CASES
from tierwright.api.conditions import ConditionType, Reason
from tierwright.control.status.compute import compute_status
from tierwright.control.status.transitions import transitions
from tierwright.observe.pods import EventView, PodView
from tierwright.observe.snapshot import Finding, Snapshot, Stage


@pytest.mark.parametrize(
    ("view", "reason", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_tier_that_does_not_serve_says_why(view: Snapshot, reason: Reason, words: str) -> None:
    condition_ = ready(view)
    assert (condition_.status, condition_.reason) == ("False", reason)
    assert words in condition_.message


@pytest.mark.parametrize("view", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_status_computed_again_from_the_same_pods_is_the_same(view: Snapshot) -> None:
    first = status_of(view)
    assert compute_status(view, first, NOW.replace(hour=13)) == first


ALL_PODS = tuple(dict.fromkeys(each for case in CASES for each in case[1].pods))
ALL_EVENTS = tuple(dict.fromkeys(each for case in CASES for each in case[1].events))


@given(
    pods=st.lists(st.sampled_from(ALL_PODS), max_size=5),
    events=st.lists(st.sampled_from(ALL_EVENTS), max_size=3),
    wanted=st.integers(0, 5),
    has_workload=st.booleans(),
    stage=st.sampled_from(Stage),
)
def test_any_mix_of_pods_gives_one_steady_status(
    pods: list[PodView], events: list[EventView], wanted: int, has_workload: bool, stage: Stage
) -> None:
    refusal = Finding(Reason.CONFLICT, "an older tier") if stage is Stage.REFUSED else None
    view = replace(
        snapshot(wanted=wanted, stage=stage, refusal=refusal), pods=tuple(pods), events=tuple(events)
    )
    view = view if has_workload else replace(view, workload=None)
    first = status_of(view)
    again = compute_status(view, first, NOW.replace(hour=20))
    assert again == first
    assert transitions(first, again) == ()
    pair = (get(first, ConditionType.RECONCILING).status, get(first, ConditionType.STALLED).status)
    assert pair != ("True", "True")
    is_ready = get(first, ConditionType.READY).status == "True"
    assert not is_ready or wanted == 0 or first.ready_replicas


@pytest.mark.parametrize("view", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_reconciling_and_stalled_are_never_both_true(view: Snapshot) -> None:
    status = status_of(view)
    pair = {get(status, ConditionType.RECONCILING).status, get(status, ConditionType.STALLED).status}
    assert pair == {"True", "False"}, "a tier that does not serve is either on its way or stuck"
