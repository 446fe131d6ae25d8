"""Rules as values: where they are asked, what they are given, and what the engines really set."""

from pathlib import Path

import pytest

from tests.support.tiers.cases import load, sample_files, spec
from tierwright.api.parse import parse_tier
from tierwright.api.rules import RULES, TransitionRule, Violation, violations
from tierwright.api.rules.env import DEVICE_ENV, OPERATOR_ENV, TOKEN_ENV
from tierwright.api.rules.rule import Rule, nodes
from tierwright.api.scaling import Cost
from tierwright.api.tier import TierSpec
from tierwright.desired.bundle import Bundle, BundleContext, desired_bundle

NEVER = Rule[Cost](
    at="spec.scaling.cost", field="perReplicaHour", cel="false", message="never", holds=lambda cost: not cost
)
NEVER_CHANGES = TransitionRule[Cost](
    at="spec.scaling.cost",
    field="perReplicaHour",
    cel="self == oldSelf",
    message="fixed",
    holds=lambda old, new: old == new,
)


def tier_spec(**scaling: object) -> TierSpec:
    return TierSpec.model_validate(spec("gpu", {"scaling": scaling}))


def test_a_rule_is_not_asked_where_its_node_is_absent() -> None:
    assert violations([NEVER], tier_spec()) == []
    assert violations([NEVER], tier_spec(cost={"perReplicaHour": "1"})) == [
        Violation("spec.scaling.cost.perReplicaHour", "never")
    ]


def test_a_rule_on_changes_is_asked_only_when_both_nodes_are_there() -> None:
    cheap, dear = tier_spec(cost={"perReplicaHour": "1"}), tier_spec(cost={"perReplicaHour": "2"})
    assert violations([NEVER_CHANGES], dear) == []
    assert violations([NEVER_CHANGES], dear, tier_spec()) == []
    assert violations([NEVER_CHANGES], tier_spec(), cheap) == []
    assert violations([NEVER_CHANGES], cheap, cheap) == []
    assert violations([NEVER_CHANGES], dear, cheap) == [
        Violation("spec.scaling.cost.perReplicaHour", "fixed")
    ]


def test_a_location_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LookupError, match="ScalingSpec has no field price"):
        list(nodes(tier_spec(), "spec.scaling.price"))


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_every_variable_that_the_operator_sets_is_refused(path: Path) -> None:
    tier = parse_tier(load(path), strict=True).tier
    assert tier is not None
    bundle = desired_bundle(tier, BundleContext())
    assert isinstance(bundle, Bundle)
    pod = next(child.manifest for child in bundle.children if child.manifest["kind"] == "Deployment")
    containers = pod["spec"]["template"]["spec"]
    names = {
        variable["name"]
        for container in [*containers.get("initContainers", []), *containers["containers"]]
        for variable in container.get("env", [])
    }
    assert "HOME" in names
    assert names <= {*OPERATOR_ENV, *DEVICE_ENV, *TOKEN_ENV}


def test_the_variables_of_device_plugins_are_not_those_of_the_operator() -> None:
    assert not set(OPERATOR_ENV) & set(DEVICE_ENV)


def test_rules_on_changes_stand_where_removing_a_field_does_not_get_past_them() -> None:
    assert {rule.at for rule in RULES if isinstance(rule, TransitionRule)} == {"spec"}
