"""Fields that others set beside ours are named with their manager; defaults, labels and Kubernetes' own say nothing."""

from typing import Any

import pytest

from tierwright.kube.resources import DEPLOYMENT, SERVICE
from tierwright.observe.additions import Addition, additions, child_additions
from tierwright.observe.slim import slim

Object = dict[str, Any]

ENGINE = 'k:{"name":"engine"}'
OURS: Object = {
    "f:selector": {},
    "f:strategy": {"f:type": {}},
    "f:template": {"f:spec": {"f:containers": {ENGINE: {".": {}, "f:name": {}, "f:args": {}}}}},
}


def entry(manager: str, spec: Object, **more: Any) -> Object:
    return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": spec}, **more}


def in_pod(**fields: Any) -> Object:
    return {"f:template": {"f:spec": {f"f:{name}": below for name, below in fields.items()}}}


def deployment(*entries: Object, ours: Object | None = None) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "fast",
            "managedFields": [entry("tierwright", OURS if ours is None else ours), *entries],
        },
        "spec": {},
    }


@pytest.mark.parametrize(
    ("others", "field"),
    [
        (in_pod(nodeSelector={}), "spec.template.spec.nodeSelector"),
        (
            in_pod(containers={'k:{"name":"side"}': {".": {}, "f:name": {}, "f:image": {}}}),
            "spec.template.spec.containers[side]",
        ),
        (
            in_pod(containers={ENGINE: {"f:name": {}, "f:env": {'k:{"name":"X"}': {".": {}}}}}),
            "spec.template.spec.containers[engine].env",
        ),
        ({"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}}, "spec.strategy.rollingUpdate"),
        ({"f:ports": {'k:{"port":9,"protocol":"TCP"}': {}}}, "spec.ports"),
        ({"f:odd": {}, "f:strategy": {"f:type": {}}}, "spec.odd"),
        ({"f:paused": {}}, "spec.paused"),
        (in_pod(containers={"v:not json": {}}), "spec.template.spec.containers[not json]"),
        (in_pod(containers={'v:"text"': {}}), "spec.template.spec.containers[text]"),
    ],
)
def test_the_topmost_field_that_is_not_ours_is_named(others: Object, field: str) -> None:
    live = deployment(entry("kubectl-edit", others))
    assert additions(live) == (Addition("kubectl-edit", field),)
    assert additions(slim(DEPLOYMENT, live)) == additions(live), "what is kept in memory tells the same"


@pytest.mark.parametrize(
    "other",
    [
        entry("kubectl-rollout", {"f:template": {"f:metadata": {"f:annotations": {"f:restartedAt": {}}}}}),
        entry("kube-controller-manager", {"f:volumeName": {}}),
        entry("kubectl-scale", {"f:replicas": {}}),
        entry("somebody", {"f:strategy": {"f:type": {}}}),
        entry("somebody", in_pod(nodeSelector={}), subresource="scale"),
        entry("velero-server", {"f:selector": {}, **in_pod(dnsPolicy={})}),
        entry("kube-controller-manager", in_pod(dnsPolicy={})),
        {"manager": "labels-only", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}},
        {"manager": "empty"},
    ],
    ids=[
        "restarted by hand",
        "bound",
        "scaled",
        "what we set as well",
        "a subresource",
        "restored whole from a backup",
        "Kubernetes itself",
        "labels",
        "no fields",
    ],
)
def test_what_is_no_addition_is_not_named(other: Object) -> None:
    assert additions(deployment(other)) == ()


def test_an_object_that_we_have_not_applied_yet_has_no_additions() -> None:
    assert additions(deployment(entry("kubectl-create", in_pod(nodeSelector={})), ours={})) == ()
    assert additions({"metadata": {"name": "bare"}}) == ()


def test_what_is_kept_in_memory_says_the_same() -> None:
    both = deployment(
        entry("kubectl-edit", in_pod(nodeSelector={}, containers={'k:{"name":"side"}': {".": {}}})),
        entry("kubectl-edit", in_pod(hostNetwork={}), operation="Update"),
        entry("argo", {"f:paused": {}}),
        entry("tierwright-scaler", {"f:replicas": {}}),
    )
    for kind in (DEPLOYMENT, SERVICE):
        kept = slim(kind, both)
        assert additions(kept) == additions(both)
        assert slim(kind, kept) == kept
    (argo, edit) = child_additions([slim(DEPLOYMENT, both)])
    assert (argo.child, argo.manager, argo.fields) == ("Deployment fast", "argo", ("spec.paused",))
    assert edit.fields == (
        "spec.template.spec.containers[side]",
        "spec.template.spec.hostNetwork",
        "spec.template.spec.nodeSelector",
    )
