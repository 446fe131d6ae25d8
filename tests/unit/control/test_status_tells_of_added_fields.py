"""Fields that others add to children are a warning as long as they stand, and an Event when they are new."""

from tests.unit.control.pods import ready_pod, snapshot, status_of
from tierwright.api.conditions import Reason
from tierwright.control.status.transitions import transitions
from tierwright.observe.snapshot import ChildAdditions

SELECTOR = ChildAdditions("Deployment fast", "kubectl-edit", ("spec.template.spec.nodeSelector",))
PORTS = ChildAdditions("Service fast", "argo", tuple(f"spec.p{number}" for number in range(7)))


def test_the_warning_names_child_fields_manager_and_what_to_do() -> None:
    first, second = status_of(snapshot(ready_pod(), additions=(SELECTOR, PORTS))).warnings or ("", "")
    assert first.startswith("Deployment fast: spec.template.spec.nodeSelector set by kubectl-edit")
    assert "spec.podTemplate" in first
    assert "spec.p4 and 2 more set by argo" in second
    assert "spec.podTemplate" not in second, "a Service is no pod"


def test_one_event_tells_of_each_that_is_new() -> None:
    before = status_of(snapshot(ready_pod(), additions=(SELECTOR,)))
    after = status_of(snapshot(ready_pod(), additions=(SELECTOR, PORTS)), before)
    (event,) = transitions(before, after, (SELECTOR, PORTS))
    assert (event.type, event.reason) == ("Warning", Reason.FIELDS_ADDED)
    assert event.message.startswith("Service fast")
    assert transitions(after, after, (SELECTOR, PORTS)) == ()
    gone = status_of(snapshot(ready_pod(), additions=(PORTS,)), after)
    assert transitions(after, gone, (PORTS,)) == (), "removal needs no words"


def test_other_warnings_are_no_events() -> None:
    status = status_of(snapshot(ready_pod()))
    # Words that a user chose, such as a model's name, may look like ours.
    lookalike = "Deployment x: spec.y set by z: the tier sets nothing there, so it stays; remove it if it is not meant"
    warned = status.model_copy(update={"warnings": ["speculation at large batch", lookalike]})
    assert transitions(status, warned) == ()


def test_a_line_that_is_cut_to_fit_is_told_once_as_well() -> None:
    long = ChildAdditions("Deployment fast", "m" * 2000, ("spec.template.spec.nodeSelector",))
    before = status_of(snapshot(ready_pod()))
    after = status_of(snapshot(ready_pod(), additions=(long,)), before)
    (event,) = transitions(before, after, (long,))
    assert event.message in (after.warnings or ())
    assert transitions(after, after, (long,)) == ()
