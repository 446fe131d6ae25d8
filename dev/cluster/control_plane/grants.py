"""Gives a daemon of dev.cluster its own rights in the cluster, so that the audit log tells it from everybody else."""

from collections.abc import Mapping, Sequence

from dev.cluster.api import APPLY_PATCH, Api

_GROUP = "rbac.authorization.k8s.io"

Rule = Mapping[str, Sequence[str]]


def apply(api: Api, collection: str, body: Mapping[str, object], name: str) -> None:
    """Server-side apply of a cluster-wide object, made or made again."""
    api.request("PATCH", f"{collection}/{name}?fieldManager=tierwright-dev&force=true", body, APPLY_PATCH)


def grant(api: Api, name: str, user: str, rules: Sequence[Rule]) -> None:
    """Make the ClusterRole `name` with these rules, and give it to `user`."""
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    apply(api, f"/apis/{_GROUP}/v1/clusterroles", role, name)
    bind(api, name, user, role=name)


def bind(api: Api, name: str, user: str, role: str) -> None:
    """Give a ClusterRole that is there already to `user`, by the binding `name`."""
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }
    apply(api, f"/apis/{_GROUP}/v1/clusterrolebindings", binding, name)
