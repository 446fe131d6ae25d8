"""A refusal that will not pass by itself is told, also when an admission webhook chose the code of a conflict for it."""

from tierwright.control.children import Applied
from tierwright.kube.errors import ApiError
from tierwright.kube.resources import SERVICE, ObjectRef

REF = ObjectRef(SERVICE, "serving", "llama-fast")


def test_a_webhook_that_denies_with_409_becomes_a_problem() -> None:
    applied = Applied()
    applied.note(
        REF, ApiError(409, "Conflict", 'admission webhook "names.example.com" denied the request: taken')
    )
    assert applied.error is None
    assert [problem.message for problem in applied.problems if "taken" in problem.message]


def test_a_conflict_that_the_next_try_settles_is_no_problem() -> None:
    applied = Applied()
    applied.note(REF, ApiError(409, "Conflict", "the object has been modified"))
    assert applied.error is not None
    assert applied.problems == []
