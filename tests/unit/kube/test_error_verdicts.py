"""Which errors are tried again, which wait for the next resync, and which wait for the spec (rule 13)."""

import pytest

from tierwright.kube.errors import ApiError, NetworkError, Verdict, verdict_of


@pytest.mark.parametrize("status", [408, 409, 410, 429, 500, 502, 503, 504])
def test_what_passes_by_itself_is_tried_again_soon(status: int) -> None:
    assert verdict_of(status) is Verdict.RETRY


@pytest.mark.parametrize("status", [401, 403, 404, 405, 422])
def test_what_another_person_must_mend_is_tried_once_per_resync(status: int) -> None:
    assert verdict_of(status) is Verdict.ONCE_PER_RESYNC


@pytest.mark.parametrize("status", [400, 406, 413, 415])
def test_what_only_another_spec_mends_is_terminal(status: int) -> None:
    assert verdict_of(status) is Verdict.TERMINAL


@pytest.mark.parametrize("status", [400, 403, 409, 500])
def test_what_a_policy_denies_is_tried_once_per_resync_whatever_its_code(status: int) -> None:
    words = 'admission webhook "validate.kyverno.svc-fail" denied the request: labels are missing'
    assert ApiError(status, "x", words).verdict is Verdict.ONCE_PER_RESYNC
    down = 'failed calling webhook "validate.kyverno.svc-fail": connection refused'
    assert ApiError(500, "InternalError", down).verdict is Verdict.RETRY


def test_the_network_is_tried_again() -> None:
    assert NetworkError("cut").verdict is Verdict.RETRY


def test_an_api_error_shows_its_words_status_and_causes() -> None:
    error = ApiError(
        422,
        "Invalid",
        "Deployment is invalid",
        request="apply /apis/apps/v1/namespaces/n/deployments/d",
        details={
            "causes": [{"field": "spec.selector", "reason": "FieldValueInvalid", "message": "immutable"}, 3]
        },
    )
    assert str(error) == (
        "apply /apis/apps/v1/namespaces/n/deployments/d: Deployment is invalid (422 Invalid)"
    )
    assert [(each.field, each.message) for each in error.causes] == [("spec.selector", "immutable")]
    assert str(ApiError(500, "x", "busy")) == "busy (500 x)"
