"""A field that shuts ours out is removed together with setting ours; nothing else is touched."""

from tierwright.control.one_of import displacing_patch
from tierwright.kube.resources import Object

BUDGET: Object = {"kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 1, "selector": {}}}


def test_a_budget_with_the_other_bound() -> None:
    live = {"kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": {}}}
    assert displacing_patch(BUDGET, live) == {"spec": {"maxUnavailable": 1, "minAvailable": None}}


def test_a_budget_without_a_rival() -> None:
    assert displacing_patch(BUDGET, BUDGET) is None


def test_a_recreate_strategy_that_was_made_rolling() -> None:
    desired: Object = {"kind": "Deployment", "spec": {"strategy": {"type": "Recreate"}}}
    live = {
        "kind": "Deployment",
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
    }
    patch = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    assert displacing_patch(desired, live) == patch


def test_a_rolling_strategy_keeps_its_own_parameters() -> None:
    desired: Object = {
        "kind": "Deployment",
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
    }
    assert displacing_patch(desired, desired) is None


def test_other_kinds_have_no_rivals() -> None:
    assert displacing_patch({"kind": "Service", "spec": {}}, {"kind": "Service"}) is None
