"""The address of each kind and object in the API."""

import pytest

from tierwright.kube.events import event_name
from tierwright.kube.resources import (
    DEPLOYMENT,
    KNOWN_KINDS,
    NODE,
    POD,
    ObjectRef,
    ResourceKind,
    kind_of,
    ref_of,
)


def test_paths_of_core_and_grouped_kinds() -> None:
    assert POD.path("n", "p") == "/api/v1/namespaces/n/pods/p"
    assert POD.path() == "/api/v1/pods"
    assert DEPLOYMENT.path("n", "d", "scale") == "/apis/apps/v1/namespaces/n/deployments/d/scale"
    assert NODE.path(None, "x") == "/api/v1/nodes/x"


def test_an_object_of_a_namespaced_kind_needs_a_namespace() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        POD.path(None, "p")


def test_kinds_are_found_by_group_and_kind_and_unknown_ones_are_named() -> None:
    for kind in KNOWN_KINDS:
        assert kind_of({"apiVersion": kind.api_version, "kind": kind.kind}) == kind
    with pytest.raises(ValueError, match="unknown kind 'Deployment' of 'extensions/v1beta1'"):
        kind_of({"apiVersion": "extensions/v1beta1", "kind": "Deployment"})


def test_references_name_what_they_mean() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "x", "namespace": "ignored", "uid": "u"},
    }
    assert ref_of(manifest) == ObjectRef(NODE, None, "x")
    assert str(ref_of(manifest)) == "Node x"
    own = ResourceKind("example.org", "v1", "Thing", "things")
    assert str(ref_of({"metadata": {"name": "t", "namespace": "n"}}, own)) == "Thing n/t"


def test_the_name_of_an_event_fits_and_depends_on_object_reason_and_message() -> None:
    first = event_name("a" * 253, ("uid", "Ready", "x"))
    assert len(first) <= 253
    assert first == event_name("a" * 253, ("uid", "Ready", "x"))
    assert first != event_name("a" * 253, ("uid", "Ready", "y"))
    assert first != event_name("a" * 253, ("other", "Ready", "x"))
