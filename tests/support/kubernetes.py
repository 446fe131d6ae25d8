"""A user's view of the cluster for tests: apply, get, list, patch and delete over plain dicts."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dev.cluster.api import APPLY_PATCH, MERGE_PATCH, Api, ApiError

Object = dict[str, Any]

_PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "Pod": "/api/v1/namespaces/{ns}/pods",
    "Service": "/api/v1/namespaces/{ns}/services",
    "ServiceAccount": "/api/v1/namespaces/{ns}/serviceaccounts",
    "Secret": "/api/v1/namespaces/{ns}/secrets",
    "ConfigMap": "/api/v1/namespaces/{ns}/configmaps",
    "ResourceQuota": "/api/v1/namespaces/{ns}/resourcequotas",
    "PersistentVolumeClaim": "/api/v1/namespaces/{ns}/persistentvolumeclaims",
    "Event": "/api/v1/namespaces/{ns}/events",
    "Deployment": "/apis/apps/v1/namespaces/{ns}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "Job": "/apis/batch/v1/namespaces/{ns}/jobs",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{ns}/scaledobjects",
    "ServiceMonitor": "/apis/monitoring.coreos.com/v1/namespaces/{ns}/servicemonitors",
    "PodMonitor": "/apis/monitoring.coreos.com/v1/namespaces/{ns}/podmonitors",
    "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/{ns}/prometheusrules",
    "InferenceTier": "/apis/tierwright.dev/v1alpha1/namespaces/{ns}/inferencetiers",
}


class Kubernetes:
    """One user at the API server, by default working in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        """Connect as the kubeconfig's user."""
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._api = Api.from_kubeconfig(kubeconfig)

    def close(self) -> None:
        """Close the connection; fixtures do, since an unclosed one is an error in the next test."""
        self._api.close()

    def path(self, kind: str, name: str = "", namespace: str | None = None) -> str:
        """The URL path of a kind or of one object."""
        base = _PATHS[kind].format(ns=namespace or self.namespace)
        return f"{base}/{name}" if name else base

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None when there is none."""
        try:
            return self._api.request("GET", self.path(kind, name, namespace))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def must_get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """The object.

        Raises:
            LookupError: there is none.
        """
        found = self.get(kind, name, namespace)
        if found is None:
            raise LookupError(f"{kind} {name} is not there")
        return found

    def list(self, kind: str, selector: str = "", namespace: str | None = None) -> list[Object]:
        """All objects of the kind that the label selector matches."""
        query = f"?labelSelector={selector.replace('=', '%3D')}" if selector else ""
        items: list[Object] = self._api.request("GET", self.path(kind, "", namespace) + query)["items"]
        return items

    def create(self, manifest: Object) -> Object:
        """POST the object; its namespace is this user's unless it names one."""
        return self._api.request(
            "POST", self.path(manifest["kind"], "", manifest["metadata"].get("namespace")), manifest
        )

    def dry_run(self, manifest: Object) -> Object:
        """What the server would store of a new object; unknown fields are refused, and nothing is stored."""
        path = self.path(manifest["kind"], "", manifest["metadata"].get("namespace"))
        return self._api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)

    def apply(self, manifest: Object, manager: str = "test-user", force: bool = True) -> Object:
        """Server-side apply, as GitOps tools do."""
        metadata = manifest["metadata"]
        path = self.path(manifest["kind"], metadata["name"], metadata.get("namespace"))
        return self._api.request(
            "PATCH", f"{path}?fieldManager={manager}&force={str(force).lower()}", manifest, APPLY_PATCH
        )

    def patch(self, kind: str, name: str, body: Object, subresource: str = "") -> Object:
        """Merge patch of the object or of one of its subresources."""
        path = self.path(kind, name) + (f"/{subresource}" if subresource else "")
        return self._api.request("PATCH", path, body, MERGE_PATCH)

    def delete(
        self, kind: str, name: str, propagation: str = "Background", namespace: str | None = None
    ) -> None:
        """Delete the object; nothing happens when it is gone."""
        try:
            self._api.request(
                "DELETE",
                self.path(kind, name, namespace),
                {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation},
            )
        except ApiError as error:
            if error.status != 404:
                raise

    def condition(self, tier: str, condition_type: str) -> Object:
        """One condition of a tier.

        Raises:
            LookupError: the tier or the condition is not there yet.
        """
        for condition in self.must_get("InferenceTier", tier).get("status", {}).get("conditions", []):
            if condition["type"] == condition_type:
                return dict(condition)
        raise LookupError(f"{tier} has no condition {condition_type}")


@contextmanager
def fresh_namespace(kubeconfig: Path) -> Iterator[Kubernetes]:
    """A user with a namespace of their own, which is deleted afterwards."""
    namespace = f"t-{uuid.uuid4().hex[:10]}"
    user = Kubernetes(kubeconfig, namespace)
    user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        yield user
    finally:
        user.delete("Namespace", namespace)
        user.close()


def mutations(audit_log: Path, user: str) -> list[Object]:
    """The audit log's completed writes of one user, leases left out."""
    found = []
    for line in audit_log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if (
            event.get("stage") == "ResponseComplete"
            and event["user"]["username"] == user
            and event["verb"] in {"create", "update", "patch", "delete", "deletecollection"}
            and event.get("objectRef", {}).get("resource") != "leases"
        ):
            found.append(event)
    return found
