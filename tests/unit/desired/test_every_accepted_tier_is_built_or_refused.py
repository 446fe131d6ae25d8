"""Whatever the API accepts becomes children that Kubernetes accepts, or is refused at a field: never a crash."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kubernetes_validate.utils import validate

from tests.support.tiers import FINE
from tests.support.tiers.cases import Fine, Spec, spec, tier
from tests.support.tiers.generate import specs
from tierwright.api.parse import parse_tier
from tierwright.desired.bundle import BundleContext, Refusal, desired_bundle

KUBERNETES = "1.37"


def build(obj: dict[str, Any]) -> None:
    parsed = parse_tier(obj, strict=True)
    if parsed.tier is None:
        return
    result = desired_bundle(parsed.tier, BundleContext())
    if isinstance(result, Refusal):
        assert result.path.startswith("spec.")
        assert result.message
        return
    for child in result.children:
        validate(child.manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("case", FINE, ids=str)
def test_every_tier_close_to_a_rule_is_built_or_refused(case: Fine) -> None:
    build(tier(spec(case.base, case.changes)))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_every_generated_tier_is_built_or_refused(content: Spec) -> None:
    build(tier(content))
