"""Objects that an earlier CRD let in: today's rules do not stop their status, their deletion or what mends them."""

import copy
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dev.cluster.api import MERGE_PATCH, Api, ApiError
from tests.support.kubernetes import Kubernetes
from tests.support.tiers.cases import spec
from tests.support.waiting import eventually
from tierwright.api.crd import custom_resource_definition
from tierwright.api.parse import parse_tier

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration

GROUP = "stored.tierwright.dev"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferencetiers.{GROUP}"


def without_rules(schema: Any) -> Any:
    """The schema as it was before there were rules."""
    if isinstance(schema, dict):
        return {
            key: without_rules(value) for key, value in schema.items() if key != "x-kubernetes-validations"
        }
    return [without_rules(item) for item in schema] if isinstance(schema, list) else schema


def crd_of_another_group(rules: bool) -> dict[str, Any]:
    """Today's CRD under a group of its own, so that other tests keep theirs."""
    crd = copy.deepcopy(custom_resource_definition())
    crd["metadata"]["name"] = f"inferencetiers.{GROUP}"
    crd["spec"]["group"] = GROUP
    names = crd["spec"]["names"]
    names |= {"kind": "StoredTier", "listKind": "StoredTierList", "singular": "storedtier"}
    del names["shortNames"], names["categories"]
    return crd if rules else {**crd, "spec": without_rules(crd["spec"])}


@pytest.fixture
def api(cluster: "Cluster") -> Iterator[Api]:
    connection = Api.from_kubeconfig(cluster.kubeconfig)
    yield connection
    connection.close()


@pytest.fixture
def stored(api: Api, k8s: Kubernetes) -> Iterator[str]:
    """The path of a tier that breaks a rule which came after it."""
    api.request("POST", CRD_PATH.rpartition("/")[0], crd_of_another_group(rules=False))
    try:
        collection = f"/apis/{GROUP}/v1alpha1/namespaces/{k8s.namespace}/inferencetiers"
        name = f"old-{uuid.uuid4().hex[:6]}"
        body = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "StoredTier",
            "metadata": {"name": name},
            "spec": spec("gpu", {"engine.tensorParallel": 4, "replicas": 2}),
        }
        eventually(lambda: accepted(api, "POST", collection, body), "the first CRD is served", 30)
        path = f"{collection}/{name}"
        api.request("PATCH", CRD_PATH, crd_of_another_group(rules=True), MERGE_PATCH)
        broken = {"spec": {"scaling": {"minReplicas": 2, "maxReplicas": 1}}}
        eventually(
            lambda: not accepted(api, "PATCH", f"{path}?dryRun=All", broken), "the rules are in force", 30
        )
        yield path
    finally:
        api.request("DELETE", CRD_PATH)


def accepted(api: Api, method: str, path: str, body: dict[str, Any]) -> bool:
    """Whether the server takes the request."""
    try:
        api.request(method, path, body, MERGE_PATCH if method == "PATCH" else "application/json")
    except ApiError as error:
        if error.status not in (404, 409, 422):
            raise
        return False
    return True


def test_a_stored_tier_that_breaks_a_new_rule_stays_manageable(api: Api, stored: str) -> None:
    obj = api.request("GET", stored)
    result = parse_tier(
        obj | {"apiVersion": "tierwright.dev/v1alpha1", "kind": "InferenceTier"}, strict=False
    )
    assert [error.path for error in result.errors] == ["spec.hardware.count"]

    condition = {
        "type": "Stalled",
        "status": "True",
        "reason": "InvalidSpec",
        "message": str(result.errors[0]),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert accepted(api, "PATCH", f"{stored}/status", {"status": {"conditions": [condition]}})
    assert accepted(api, "PATCH", stored, {"metadata": {"labels": {"a": "b"}}})
    assert accepted(api, "PATCH", stored, {"spec": {"hardware": {"count": 4}}})
    assert not accepted(api, "PATCH", stored, {"spec": {"hardware": {"count": 2}}})
    assert accepted(api, "DELETE", stored, {})
