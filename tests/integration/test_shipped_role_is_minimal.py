"""Every right of the shipped role is used by one life of a tier, so none of them could be left out (rule 17).

Writes are read from the API server's audit log, reads from the operator's own count of requests. That the role is
enough is shown by all other tests, which run under it.
"""

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.live import NAME, Object, apply_ready, tier, wait_condition, wait_ready
from tests.support.activity import wait_resyncs
from tests.support.kubernetes import Kubernetes, mutations
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually
from tierwright.api.tier import GROUP
from tierwright.control.kinds import INFERENCE_TIER, WATCHED
from tierwright.control.rbac import NODES, PERMISSIONS
from tierwright.kube.resources import KNOWN_KINDS

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration

Right = tuple[str, str, str]
"""API group, resource (with subresource), verb."""

CHECKED_ELSEWHERE: Final = {(GROUP, "inferencetiers/finalizers", "update")}
"""Asked by an admission plugin of some clusters (OwnerReferencesPermissionEnforcement), never by a request of ours."""

_READ = re.compile(
    r'^tierwright_api_requests_total\{code="(?:200|404)",kind="(\w+)",verb="(get|list)"\} (\S+)$',
    re.MULTILINE,
)
_KINDS = {kind.kind: kind for kind in (*KNOWN_KINDS, INFERENCE_TIER)}


def reads(operator: "OperatorProcess") -> dict[Right, float]:
    """How often the operator has read each kind, by get and by list."""
    found = _READ.findall(operator.get("/metrics"))
    counts: dict[Right, float] = {}
    for (
        kind,
        verb,
        count,
    ) in found:  # one line for each status code; that there is no such object was read as well
        right = (_KINDS[kind].group, _KINDS[kind].plural, verb)
        counts[right] = counts.get(right, 0.0) + float(count)
    return counts


def written(cluster: "Cluster", operator: "OperatorProcess", namespace: str) -> set[Right]:
    """Rights that the operator's successful writes in the namespace needed; an apply that makes an object needs two."""
    used: set[Right] = set()
    for each in mutations(cluster.audit_log, operator.user):
        ref, code = each["objectRef"], each["responseStatus"]["code"]
        if ref.get("namespace") != namespace or code >= 300:
            continue
        resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
        used.add((ref.get("apiGroup", ""), resource, each["verb"]))
        if (each["verb"], code) == ("patch", 201):
            used.add((ref.get("apiGroup", ""), resource, "create"))
    return used


def weights(storage_class: str) -> Object:
    """A cache that goes with its tier."""
    return {"weights": {"size": "1Gi", "storageClassName": storage_class, "reclaimPolicy": "Delete"}}


def compiling(**spec: Any) -> Object:
    """A tier whose compile volume is filled by a Job, which never finds a node."""
    compile_cache = {
        "size": "1Gi",
        "storageClassName": "shared",
        "sharing": "Shared",
        "accessMode": "ReadWriteMany",
    }
    pool = {"matchLabels": {"karpenter.sh/nodepool": "no-such"}}
    return tier(
        "compiling",
        speed="compiling",
        engine={"type": "jax"},
        hardware={**tier()["spec"]["hardware"], "nodePool": pool},
        cache={"compile": compile_cache},
        **spec,
    )


def shrink_while_measured(k8s: Kubernetes) -> None:
    """A measured tier learns, and marks the replica that goes."""
    with played_engines(k8s) as engines:
        engines.rates["shrinks"] = 3.0
        objectives = {"objectives": {"timeToFirstToken": "500ms"}}
        k8s.apply(tier("shrinks", speed="shrinks", replicas=2, scaling=objectives))
        eventually(
            lambda: k8s.must_get("InferenceTier", "shrinks").get("status", {}).get("latency"),
            "its pods are measured",
        )
        eventually(lambda: k8s.get("ConfigMap", "shrinks-autoscaler"), "what was learned is written")
        k8s.patch("InferenceTier", "shrinks", {"spec": {"replicas": 1}})
        eventually(lambda: len(k8s.list("Pod", "tierwright.dev/tier=shrinks")) == 1, "one pod goes")


def live_a_life(k8s: Kubernetes, operator: "OperatorProcess") -> None:
    """Makes every child, replaces those that can be replaced, gets smaller, and gets stuck once."""
    apply_ready(k8s, tier(cache=weights("shared")))
    k8s.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}})
    k8s.apply(tier(cache=weights("standard"), pod={"serviceAccount": {"name": "mine"}}))
    eventually(lambda: k8s.get("ServiceAccount", NAME) is None, "the tier's own account is deleted")

    def replaced() -> bool:
        claims = k8s.list("PersistentVolumeClaim", f"tierwright.dev/tier={NAME}")
        return [each["spec"]["storageClassName"] for each in claims] == ["standard"]

    eventually(replaced, "the claim of the former class is deleted", deadline_s=90)
    wait_ready(k8s)
    k8s.apply(compiling())
    eventually(lambda: k8s.list("Job"), "a Job is to compile")
    k8s.apply(compiling(suspend=True))
    eventually(lambda: not k8s.list("Job"), "it is no longer wanted")
    shrink_while_measured(k8s)
    k8s.apply(tier("stuck", speed="stuck", cache=weights("no-such")))
    wait_condition(k8s, "Ready", "False", "StorageClassMissing", name="stuck")
    wait_resyncs(operator, 1)


def test_one_life_of_a_tier_uses_every_right_of_the_role(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    before = reads(operator)
    live_a_life(k8s, operator)
    read = {right for right, count in reads(operator).items() if count > before.get(right, 0.0)}
    watched = {(each.kind.group, each.kind.plural, "watch") for each in WATCHED}
    used = read | written(cluster, operator, k8s.namespace) | watched
    allowed = {(each.group, each.resource, verb) for each in PERMISSIONS for verb in each.verbs}
    assert used <= allowed
    assert allowed - used == CHECKED_ELSEWHERE


def test_no_group_is_asked_for_that_a_bare_kubernetes_does_not_serve(admin: Kubernetes, crd: None) -> None:
    """kserve#5607: a dependency renamed its API group, and the role no longer matched. There is none that could."""
    groups = {each["name"] for each in admin._api.request("GET", "/apis")["groups"]}
    added = {each["spec"]["group"] for each in admin.list("CustomResourceDefinition")}
    bare = (groups - added) | {""}
    asked = {each.group for each in (*PERMISSIONS, *NODES)} | {each.kind.group for each in WATCHED}
    assert GROUP in added
    assert asked - bare == {GROUP}
