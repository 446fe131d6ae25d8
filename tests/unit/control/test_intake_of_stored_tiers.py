"""How far a stored tier's reconcile may go: deleted, unreadable, paused and rival tiers each stop at their place."""

from typing import Any

import pytest

from tests.unit.control.pods import tier_object
from tierwright.api.conditions import Reason
from tierwright.control.conflicts import earlier_claimant, served
from tierwright.control.intake import take_in
from tierwright.control.problems import problem_of
from tierwright.control.status_writer import stored_status
from tierwright.kube.errors import ApiError, KubeError, NetworkError
from tierwright.kube.resources import SERVICE, ObjectRef
from tierwright.observe.snapshot import Stage

Object = dict[str, Any]


def stored(
    name: str = "llama-fast", created: str = "2026-11-30T11:00:00Z", uid: str = "u-1", **meta: Any
) -> Object:
    obj = tier_object(name)
    obj["metadata"] |= {"creationTimestamp": created, "uid": uid, "generation": 1, **meta}
    return obj


def test_valid_tier_goes_on() -> None:
    intake = take_in(stored(), [stored()])
    assert (intake.stage, intake.refusal) == (Stage.ACTIVE, None)
    assert intake.tier is not None


def test_unreadable_spec_is_refused_with_all_errors_at_once() -> None:
    broken = stored()
    broken["spec"]["speed"] = "Not A Speed"
    broken["spec"]["replicas"] = -1
    intake = take_in(broken, [])
    assert (intake.stage, intake.tier) == (Stage.REFUSED, None)
    assert intake.refusal is not None
    assert intake.refusal.reason is Reason.INVALID_SPEC
    assert "spec.speed" in intake.refusal.message
    assert "spec.replicas" in intake.refusal.message


@pytest.mark.parametrize("spec", [None, {}, {"model": "text"}, {"model": {"name": 7}, "speed": "fast"}])
def test_stored_junk_is_refused_and_claims_nothing(spec: object) -> None:
    obj = {**stored(), "spec": spec}
    assert take_in(obj, []).stage is Stage.REFUSED
    assert served(obj) is None


def test_deleted_tier_is_deleting_even_when_its_spec_is_broken() -> None:
    """kserve#6154: a lookup that failed before the deletion branch kept an object Terminating for ever."""
    gone = stored(deletionTimestamp="2026-11-30T12:00:00Z")
    assert take_in(gone, []).stage is Stage.DELETING
    assert take_in({**gone, "spec": None}, []).stage is Stage.DELETING


@pytest.mark.parametrize(
    ("value", "stage"),
    [("true", Stage.PAUSED), ("", Stage.PAUSED), ("False", Stage.ACTIVE), ("false", Stage.ACTIVE)],
)
def test_paused_annotation_stops_unless_it_says_false(value: str, stage: Stage) -> None:
    assert take_in(stored(annotations={"tierwright.dev/paused": value}), []).stage is stage


def test_broken_status_is_no_reason_to_refuse_the_spec() -> None:
    obj = {**stored(), "status": {"conditions": "none", "replicas": -1}}
    assert take_in(obj, []).stage is Stage.ACTIVE
    assert stored_status(obj).conditions == []


def test_older_tier_of_a_speed_wins_and_the_younger_says_who() -> None:
    older, younger = stored("a", "2026-11-30T10:00:00Z"), stored("b")
    both = [younger, older]
    assert take_in(older, both).stage is Stage.ACTIVE
    refused = take_in(younger, both)
    assert refused.stage is Stage.REFUSED
    assert refused.refusal is not None
    assert refused.refusal.reason is Reason.CONFLICT
    assert "InferenceTier a came first" in refused.refusal.message


AT_WORK = {"endpoint": "a.serving.svc:8000", "conditions": [{"type": "Ready", "reason": "EngineCrashed"}]}
REFUSED = {"conditions": [{"type": "Ready", "reason": "Conflict"}]}
REFUSED_LATER = {**AT_WORK, **REFUSED}
EARLIER = "2026-11-30T10:59:59Z"


@pytest.mark.parametrize(
    ("rivals", "winner"),
    [
        pytest.param([stored("b", uid="1"), stored("a", uid="2"), stored("c")], "a", id="all new: by name"),
        pytest.param(
            [{**stored("b"), "status": AT_WORK}, stored("a")], "b", id="one at work keeps its claim"
        ),
        pytest.param(
            [{**stored("b"), "status": AT_WORK}, {**stored("a"), "status": REFUSED}],
            "b",
            id="refused stays so",
        ),
        pytest.param(
            [{**stored("b"), "status": AT_WORK}, {**stored("a"), "status": REFUSED_LATER}],
            "b",
            id="refused with pods stays so",
        ),
        pytest.param(
            [{**stored("b"), "status": AT_WORK}, {**stored("a"), "status": AT_WORK}],
            "a",
            id="both at work: by name",
        ),
        pytest.param(
            [stored("b", EARLIER), {**stored("a"), "status": AT_WORK}], "b", id="another second: by age alone"
        ),
        pytest.param([{**stored("b"), "status": "junk"}, stored("a")], "a", id="a status that is none"),
        pytest.param(
            [{**stored("b"), "status": {"endpoint": "x", "conditions": "junk"}}, stored("a")],
            "b",
            id="conditions that are none",
        ),
    ],
)
def test_tiers_of_one_speed_have_one_winner_whoever_asks(rivals: list[Object], winner: str) -> None:
    for order in (rivals, rivals[::-1]):
        found = {each["metadata"]["name"]: earlier_claimant(each, order) for each in order}
        assert found == {name: None if name == winner else winner for name in found}


@pytest.mark.parametrize("status", [None, {}, {"endpoint": ""}, {"conditions": []}])
def test_tier_that_serves_keeps_its_claim_though_its_status_was_wiped(status: Object | None) -> None:
    """The name of the other comes first, and its own status says that it lost."""
    serving = {**stored("b", uid="1"), "status": status}
    both = [serving, {**stored("a", uid="2"), "status": REFUSED}]
    assert earlier_claimant(serving, both, {"1"}) is None
    assert earlier_claimant(both[1], both, {"1"}) == "b"
    loser_with_pods = {**stored("a", uid="2"), "status": REFUSED_LATER}
    assert earlier_claimant(loser_with_pods, [serving, loser_with_pods], {"1", "2"}) == "b"


def test_paused_younger_tier_stays_paused() -> None:
    older = stored("a", "2026-11-30T10:00:00Z")
    younger = stored("b", annotations={"tierwright.dev/paused": "true"})
    assert take_in(younger, [older, younger]).stage is Stage.PAUSED


REF = ObjectRef(SERVICE, "serving", "llama-fast")


@pytest.mark.parametrize(
    ("error", "reason", "passing"),
    [
        (NetworkError("refused"), Reason.API_UNAVAILABLE, True),
        (ApiError(503, "ServiceUnavailable", "later"), Reason.API_UNAVAILABLE, True),
        (ApiError(429, "TooManyRequests", "slow down"), Reason.API_UNAVAILABLE, True),
        (ApiError(403, "Forbidden", "exceeded quota: limits"), Reason.QUOTA_EXCEEDED, False),
        (ApiError(403, "Forbidden", "cannot patch"), Reason.FORBIDDEN, False),
        (ApiError(401, "Unauthorized", "who"), Reason.FORBIDDEN, False),
        (ApiError(404, "NotFound", "no such kind"), Reason.KIND_MISSING, False),
        (ApiError(422, "Invalid", "field is immutable"), Reason.REJECTED, False),
        (ApiError(400, "BadRequest", "unknown field"), Reason.REJECTED, False),
    ],
)
def test_error_of_the_api_server_is_named_with_its_words(
    error: KubeError, reason: Reason, passing: bool
) -> None:
    problem = problem_of(REF, error)
    assert (problem.reason, problem.passing) == (reason, passing)
    assert problem.message.startswith("Service llama-fast: ")
    assert str(error) in problem.message
