"""What the operator may do: one table of kinds and verbs, from which the chart's roles are generated.

Every row is used by the code and says for what; tests on a real API server run under these roles alone. All of it lies
in the namespaces whose tiers are served: nothing of the cluster itself is read, unless nodes are asked for. There is no
row for Secrets on purpose: they are referenced in pods and read by the kubelet, never by the operator.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from tierwright.api.tier import GROUP

READ: Final = ("get", "list", "watch")
WATCH: Final = ("list", "watch")
KEEP: Final = (*READ, "create", "patch")
"""Children: server-side apply is `patch`, and `create` where the object is not there yet."""
REPLACE: Final = (*KEEP, "delete")
"""Children that a tier may come to want no longer, or under another name."""


@dataclass(frozen=True)
class Permission:
    """One kind and what may be done with it; `resource` is the plural name, with `/subresource` where one is meant."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str


PERMISSIONS: Final[tuple[Permission, ...]] = (
    Permission(
        GROUP,
        "inferencetiers",
        READ,
        "the tiers to serve, each read anew before children are written",
    ),
    Permission(GROUP, "inferencetiers/status", ("patch",), "conditions and numbers"),
    Permission(
        GROUP,
        "inferencetiers/finalizers",
        ("update",),
        "blockOwnerDeletion on children, where the cluster checks it (OwnerReferencesPermissionEnforcement)",
    ),
    Permission("apps", "deployments", KEEP, "the workload of a tier"),
    Permission("batch", "jobs", REPLACE, "what fills a compile volume before the pods start"),
    Permission("", "services", KEEP, "the address of a tier"),
    Permission("", "serviceaccounts", REPLACE, "the identity of a tier's pods"),
    Permission("", "persistentvolumeclaims", REPLACE, "cache volumes"),
    Permission("policy", "poddisruptionbudgets", KEEP, "drains take one pod at a time"),
    Permission("networking.k8s.io", "networkpolicies", KEEP, "who may reach the pods"),
    Permission("", "pods", WATCH, "status is computed from live pods"),
    Permission(
        "", "pods", ("patch",), "which replicas go first when a tier gets smaller (pod-deletion-cost)"
    ),
    Permission(
        "",
        "configmaps",
        ("get", "create", "patch"),
        "what the autoscaler has learned of a tier, in one of its own",
    ),
    Permission("", "events", ("create", "patch"), "transitions of a tier's conditions"),
    Permission("", "events", ("list",), "why pods and volumes of a tier are stuck"),
    Permission(
        "autoscaling", "horizontalpodautoscalers", WATCH, "a second scaler of one workload is a conflict"
    ),
)

NODES: Final[tuple[Permission, ...]] = (
    Permission("", "nodes", ("list",), "what node pools of a fixed size have room for"),
)
"""In the whole cluster, and only with the chart's `poolSize: nodes`."""

VIEW: Final[tuple[Permission, ...]] = (
    Permission(GROUP, "inferencetiers", READ, "people with the cluster's role `view`"),
    Permission(GROUP, "inferencetiers/status", ("get",), "people with the cluster's role `view`"),
    Permission(GROUP, "inferencetiers/scale", ("get",), "people with the cluster's role `view`"),
)
"""What the chart adds to the cluster's roles view, edit and admin."""

EDIT: Final[tuple[Permission, ...]] = (
    Permission(
        GROUP,
        "inferencetiers",
        ("create", "update", "patch", "delete", "deletecollection"),
        "people with the cluster's roles `edit` and `admin`",
    ),
    Permission(GROUP, "inferencetiers/scale", ("update", "patch"), "kubectl scale by the same people"),
)
"""What the chart adds to the cluster's roles edit and admin."""


def policy_rules(permissions: Iterable[Permission]) -> list[dict[str, list[str]]]:
    """The rules of a Role: permissions of one API group with equal verbs share a rule, in a fixed order."""
    ordered = sorted(permissions, key=lambda each: (each.group, each.verbs, each.resource))
    return [
        {"apiGroups": [group], "resources": [each.resource for each in members], "verbs": list(verbs)}
        for (group, verbs), members in groupby(ordered, key=lambda each: (each.group, each.verbs))
    ]
