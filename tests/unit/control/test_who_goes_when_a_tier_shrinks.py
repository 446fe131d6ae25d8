"""Which replicas go: not ready before ready, idle before busy, young before old; nothing is written for a tier that stays."""

from tests.unit.control import pods
from tierwright.control.victims import DELETION_COST, Candidate, candidates_of, costs_to_write

OLD, YOUNG = "2026-11-30T10:00:00Z", "2026-11-30T11:30:00Z"


def replica(
    name: str, requests: float | None = 0.0, since: str = OLD, *, ready: bool = True, cost: str | None = None
) -> Candidate:
    return Candidate(name, ready, requests, since, cost)


def test_an_idle_replica_goes_before_a_busy_one() -> None:
    assert costs_to_write([replica("busy", 3.0, YOUNG), replica("idle"), replica("busier", 9.0)], 2) == {
        "idle": "-1"
    }


def test_among_idle_ones_the_youngest_goes() -> None:
    assert costs_to_write([replica("old"), replica("young", since=YOUNG)], 1) == {"young": "-1"}


def test_a_replica_that_does_not_tell_counts_as_busy() -> None:
    assert costs_to_write([replica("silent", None), replica("busy", 50.0)], 1) == {"busy": "-1"}


def test_nothing_is_written_where_those_that_do_not_serve_are_enough() -> None:
    """The ReplicaSet's controller takes them first by itself."""
    assert costs_to_write([replica("serves"), replica("starts", None, ready=False)], 1) == {}
    gone = [replica("a", 5.0), replica("b"), replica("starts", None, ready=False)]
    assert costs_to_write(gone, 1) == {"b": "-1"}


def test_nothing_is_written_for_a_tier_that_stays_or_goes_as_a_whole() -> None:
    both = [replica("a"), replica("b", cost="-1")]
    for left in (2, 3, 0):
        assert costs_to_write(both, left) == {}


def test_a_choice_that_was_made_before_is_not_written_again() -> None:
    assert costs_to_write([replica("a", cost="-1"), replica("b", 2.0)], 1) == {}


def test_what_an_earlier_choice_left_on_a_replica_that_stays_is_taken_away() -> None:
    """It was idle when the tier was to shrink and did not; now another one is."""
    assert costs_to_write([replica("a", 7.0, cost="-1"), replica("b")], 1) == {"a": None, "b": "-1"}


def test_a_wish_of_others_is_followed_and_left_where_it_is() -> None:
    assert costs_to_write([replica("kept", cost="100"), replica("busy", 5.0)], 1) == {"busy": "-1"}
    assert costs_to_write([replica("given", 5.0, cost="-50"), replica("idle")], 1) == {}
    assert costs_to_write([replica("odd", 5.0, cost="many"), replica("idle")], 1) == {"idle": "-1"}
    assert costs_to_write([replica("kept", cost="100"), replica("also", cost="200")], 1) == {"kept": "-1"}


def test_pods_that_end_are_no_candidates_and_what_they_do_is_known_by_name() -> None:
    marked = pods.ready_pod("a")
    marked["metadata"]["annotations"] = {DELETION_COST: "-1"}
    live = [
        marked,
        pods.pod("b"),
        pods.pod("going", ready=True, deleting=True),
        pods.pod("ended", phase="Failed"),
    ]
    found = candidates_of(live, {"a": 2.0})
    assert found == (
        Candidate("a", True, 2.0, pods.CREATED, "-1"),
        Candidate("b", False, None, pods.CREATED, None),
    )
    assert candidates_of([{"metadata": {"name": "new"}}], {}) == (Candidate("new", False, None, "", None),)
