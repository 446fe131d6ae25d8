"""What is applied, adopted, awaited and left alone; drift is seen, and what others add is none."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright.control.apply_plan import (
    APPLIED_HASH_ANNOTATION,
    Action,
    Owner,
    is_prunable,
    plan_child,
    stamped,
)
from tierwright.control.containment import differences

Object = dict[str, Any]
OWNER = Owner("u-1", "llama-fast")
CONTROLLER = {
    "apiVersion": "tierwright.dev/v1alpha1",
    "kind": "InferenceTier",
    "name": "llama-fast",
    "uid": "u-1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def manifest(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "llama-fast",
            "namespace": "serving",
            "labels": {"tierwright.dev/tier": "llama-fast"},
            "ownerReferences": [CONTROLLER],
        },
        "spec": {
            "selector": {"tierwright.dev/tier": "llama-fast"},
            "ports": [{"name": "http", "port": 8000, "targetPort": "http"}],
            **spec,
        },
    }


def live(of: Object, **metadata: Any) -> Object:
    """The object as the API server stores it: a uid, defaults, and keys of others."""
    found = copy.deepcopy(of)
    found["metadata"] |= {"uid": "c-1", "resourceVersion": "7", **metadata}
    found["metadata"]["labels"] = {**found["metadata"].get("labels", {}), "argocd.argoproj.io/instance": "x"}
    found["spec"] |= {"type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None"}
    for port in found["spec"]["ports"]:
        port.setdefault("protocol", "TCP")
    found["status"] = {"loadBalancer": {}}
    return found


def without_owner(obj: Object) -> Object:
    return {
        **obj,
        "metadata": {key: each for key, each in obj["metadata"].items() if key != "ownerReferences"},
    }


def owned_by(obj: Object, **reference: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [{**CONTROLLER, **reference}]}}


DESIRED = stamped(manifest())
UNLABELLED = {**live(DESIRED), "metadata": {"name": "llama-fast", "uid": "c-1"}}


@pytest.mark.parametrize(
    ("found", "action"),
    [
        (None, Action.CREATE),
        (live(DESIRED), Action.NOTHING),
        (live(stamped(manifest(ports=[{"name": "http", "port": 9}]))), Action.APPLY),
        (without_owner(live(DESIRED)), Action.ADOPT),
        (UNLABELLED, Action.FOREIGN),
        (owned_by(live(DESIRED), kind="Deployment", uid="other"), Action.FOREIGN),
        (owned_by(live(DESIRED), uid="u-0"), Action.WAIT_FOR_OLD_OWNER),
        (live(DESIRED, deletionTimestamp="2026-11-30T11:00:00Z"), Action.WAIT_FOR_DELETION),
        (live(DESIRED, deletionTimestamp="2026-11-30T11:00:00Z", labels={}), Action.WAIT_FOR_DELETION),
    ],
    ids=[
        "absent",
        "as desired",
        "edited",
        "orphaned with our labels",
        "not ours: no labels, no controller",
        "not ours: another controller",
        "of a deleted tier of the same name",
        "being deleted",
        "being deleted, and stripped of labels",
    ],
)
def test_child_is_planned_by_who_owns_it(found: Object | None, action: Action) -> None:
    plan = plan_child(DESIRED, found, OWNER)
    assert plan.action is action
    assert plan.uid == (None if found is None else "c-1")
    assert action.writes == (action in (Action.CREATE, Action.APPLY, Action.ADOPT))
    assert bool(plan.why) == (action.value in ("Foreign", "WaitForOldOwner", "WaitForDeletion"))


def test_retained_volume_without_owner_is_settled() -> None:
    desired = stamped(without_owner(manifest()))
    assert plan_child(desired, live(desired), OWNER).action is Action.NOTHING


def test_volume_that_becomes_retained_loses_its_owner() -> None:
    before, now = stamped(manifest()), stamped(without_owner(manifest()))
    assert plan_child(now, live(before), OWNER).action is Action.APPLY


def test_field_that_is_no_longer_desired_is_an_apply() -> None:
    before = stamped(manifest(externalName="x"))
    assert plan_child(DESIRED, live(before), OWNER).differing == (
        f"metadata.annotations.{APPLIED_HASH_ANNOTATION}",
    )


def test_drift_is_what_others_changed_and_not_an_edit_of_the_spec() -> None:
    edited = live(DESIRED)
    edited["spec"]["selector"] = {"app": "hijacked"}
    assert plan_child(DESIRED, edited, OWNER).is_drift
    assert not plan_child(DESIRED, live(stamped(manifest(externalName="x"))), OWNER).is_drift
    assert not plan_child(DESIRED, None, OWNER).is_drift


def test_label_of_ours_that_was_taken_away_comes_back() -> None:
    found = live(DESIRED)
    del found["metadata"]["labels"]["tierwright.dev/tier"]
    assert plan_child(DESIRED, found, OWNER).differing == ("metadata.labels.tierwright.dev/tier",)


def test_hash_does_not_depend_on_the_order_of_keys() -> None:
    shuffled = dict(reversed(manifest().items()))
    assert stamped(shuffled)["metadata"] == DESIRED["metadata"]


@pytest.mark.parametrize(
    ("found", "prunable"),
    [
        (live(DESIRED), True),
        (without_owner(live(DESIRED)), False),
        (owned_by(live(DESIRED), uid="u-0"), False),
        (live(DESIRED, deletionTimestamp="2026-11-30T11:00:00Z"), False),
        (live(manifest(), labels={}), False),
    ],
    ids=["ours", "retained or orphaned", "another tier's", "going already", "unlabelled"],
)
def test_only_what_this_tier_controls_is_pruned(found: Object, prunable: bool) -> None:
    assert is_prunable(found, OWNER) is prunable


def test_rival_labels_are_not_prunable() -> None:
    found = live(DESIRED)
    found["metadata"]["labels"]["tierwright.dev/tier"] = "other"
    assert not is_prunable(found, OWNER)


# Containment


def template(**container: Any) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "engine", **container}]}}}}


@pytest.mark.parametrize(
    ("desired", "found"),
    [
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}),
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}}),
        ({"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "1Gi"}}),
        ({"requests": {"cpu": "0.001m"}}, {"requests": {"cpu": "1m"}}),
        ({"requests": {"cpu": "1.0005"}}, {"requests": {"cpu": "1001m"}}),
        ({"limits": {"memory": "1.5Gi"}}, {"limits": {"memory": "1536Mi"}}),
        ({"limits": {"nvidia.com/gpu": "4"}}, {"limits": {"nvidia.com/gpu": 4}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"maxSurge": "0"}, {"maxSurge": 0}),
        ({"optional": False}, {}),
        ({"value": ""}, {}),
        ({"initialDelaySeconds": 0}, {}),
        ({"args": []}, {}),
        ({"securityContext": {"capabilities": {"add": []}}}, {}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"env": [{"name": "b"}, {"name": "a"}]}, {"env": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
        (
            {"ports": [{"containerPort": 8000, "name": "http"}]},
            {"ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}]},
        ),
        ({"ports": [{"port": 8000}]}, {"ports": [{"port": 8000, "protocol": "TCP", "targetPort": 8000}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a", "operator": "Equal"}]}),
        ({"podSelector": {}}, {"podSelector": {}}),
    ],
)
def test_what_the_api_server_rewrites_is_no_drift(desired: Object, found: Object) -> None:
    assert differences(desired, found) == ()


@pytest.mark.parametrize(
    ("desired", "found", "paths"),
    [
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, ("requests.cpu",)),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "lots"}}, ("requests.cpu",)),
        ({"limits": {"memory": "1e999999999"}}, {"limits": {"memory": "1Gi"}}, ("limits.memory",)),
        ({"value": "1"}, {"value": "1000m"}, ("value",)),
        ({"optional": True}, {}, ("optional",)),
        ({"optional": True}, {"optional": False}, ("optional",)),
        ({"hostNetwork": False}, {"hostNetwork": True}, ("hostNetwork",)),
        ({"args": ["--a", "--b"]}, {"args": ["--b", "--a"]}, ("args[0]", "args[1]")),
        ({"args": ["--a"]}, {"args": ["--a", "--b"]}, ("args",)),
        ({"args": []}, {"args": ["--b"]}, ("args",)),
        ({"env": [{"name": "a", "value": "1"}]}, {"env": [{"name": "a", "value": "2"}]}, ("env[a].value",)),
        ({"env": [{"name": "a"}]}, {"env": [{"name": "b"}]}, ("env[a]",)),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80, "protocol": "UDP"}]}, ("ports[80/TCP]",)),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a"}, {"key": "b"}]}, ("tolerations",)),
        (
            {"podSelector": {"matchLabels": {"a": "1"}}},
            {"podSelector": {"matchLabels": {"a": "1", "b": "2"}}},
            ("podSelector.matchLabels.b",),
        ),
        ({"podSelector": {}}, {"podSelector": {"matchLabels": {"b": "2"}}}, ("podSelector.matchLabels",)),
        ({"nodeSelector": {"pool": "h100"}}, {"nodeSelector": {"pool": "a100"}}, ("nodeSelector.pool",)),
        (
            {"spec": {"ingress": [{"ports": [{"port": "http"}]}]}},
            {"spec": {"ingress": [{"ports": [{"port": "http", "protocol": "TCP"}, {"port": 22}]}]}},
            ("spec.ingress[0].ports",),
        ),
        ({"automountServiceAccountToken": False}, {}, ("automountServiceAccountToken",)),
        ({"allowPrivilegeEscalation": False}, {}, ("allowPrivilegeEscalation",)),
        ({"spec": {"a": 1}}, {"spec": "text"}, ("spec",)),
        ({"spec": "text"}, {"spec": {"a": 1}}, ("spec",)),
    ],
)
def test_what_a_person_changed_is_named_by_its_path(
    desired: Object, found: Object, paths: tuple[str, ...]
) -> None:
    assert differences(desired, found) == paths


def test_deep_paths_name_the_container() -> None:
    paths = differences(template(image="a:1"), template(image="a:2"))
    assert paths == ("spec.template.spec.containers[engine].image",)


SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab1", max_size=3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_after_an_apply_nothing_differs(desired: Object, others: Object) -> None:
    """Server-side apply with force leaves our values and keeps the keys of others."""

    def merged(ours: Any, theirs: Any) -> Any:
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return {**theirs, **{key: merged(value, theirs.get(key)) for key, value in ours.items()}}
        return ours

    assert differences(desired, merged(desired, others)) == ()


@given(OBJECTS)
def test_server_that_drops_empty_values_causes_no_drift(desired: Object) -> None:
    def pruned(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kept = {key: pruned(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, False, "", 0, [], {})}

    assert differences(desired, pruned(desired)) == ()
