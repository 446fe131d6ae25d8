"""Names the kinds of objects that the operator talks about, and the address of each object in the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

Object = dict[str, Any]
"""One Kubernetes object as it stands on the wire; treated as read-only once it is stored or shared."""


@dataclass(frozen=True)
class ResourceKind:
    """One kind of object in one version of its API group; the core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version`` as manifests write it; the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of a collection (no name), an object, or a subresource of an object.

        Raises ValueError when an object of a namespaced kind has no namespace.
        """
        if self.namespaced and name is not None and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join([parts[0], *(quote(part, safe="") for part in parts[1:])])


@dataclass(frozen=True)
class ObjectRef:
    """Which object: its kind, namespace (None for kinds of the cluster) and name."""

    kind: ResourceKind
    namespace: str | None
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.kind} {place}{self.name}"


POD: Final = ResourceKind("", "v1", "Pod", "pods")
SERVICE: Final = ResourceKind("", "v1", "Service", "services")
PVC: Final = ResourceKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT: Final = ResourceKind("", "v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP: Final = ResourceKind("", "v1", "ConfigMap", "configmaps")
SECRET: Final = ResourceKind("", "v1", "Secret", "secrets")
EVENT: Final = ResourceKind("", "v1", "Event", "events")
NODE: Final = ResourceKind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE: Final = ResourceKind("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT: Final = ResourceKind("apps", "v1", "Deployment", "deployments")
REPLICA_SET: Final = ResourceKind("apps", "v1", "ReplicaSet", "replicasets")
JOB: Final = ResourceKind("batch", "v1", "Job", "jobs")
PDB: Final = ResourceKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY: Final = ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
LEASE: Final = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases")
STORAGE_CLASS: Final = ResourceKind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
HPA: Final = ResourceKind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
CRD: Final = ResourceKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

KNOWN_KINDS: Final[tuple[ResourceKind, ...]] = (
    POD,
    SERVICE,
    PVC,
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    SECRET,
    EVENT,
    NODE,
    NAMESPACE,
    DEPLOYMENT,
    REPLICA_SET,
    JOB,
    PDB,
    NETWORK_POLICY,
    LEASE,
    STORAGE_CLASS,
    HPA,
    CRD,
)
_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in KNOWN_KINDS}


def kind_of(manifest: Mapping[str, Any]) -> ResourceKind:
    """The known kind of a manifest, from its apiVersion and kind.

    Raises ValueError for a kind that is not in KNOWN_KINDS: our own kinds are named by the caller.
    """
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    found = _BY_NAME.get((str(api_version), str(kind)))
    if found is None:
        raise ValueError(f"unknown kind {kind!r} of {api_version!r}")
    return found


def ref_of(manifest: Mapping[str, Any], kind: ResourceKind | None = None) -> ObjectRef:
    """The address of a manifest; ``kind`` only for kinds that are not in KNOWN_KINDS."""
    resource = kind or kind_of(manifest)
    metadata = manifest.get("metadata") or {}
    return ObjectRef(resource, metadata.get("namespace") if resource.namespaced else None, metadata["name"])
