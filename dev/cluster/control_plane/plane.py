"""What a running control plane offers to those who join it: addresses, certificates, and a kubeconfig per user.

A node needs: `server`, `ca_cert` (also the kubelet's `clientCAFile`), `kubeconfig("system:node:NAME",
["system:nodes"])`, `authority.serving(...)` for its own serving certificate, `service_cidr` and `cluster_dns_domain`.
kube-proxy needs `kubeconfig("system:kube-proxy")` and a binding to the ClusterRole `system:node-proxier`.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.control_plane.pki import Authority

SERVICE_CIDR = "10.97.0.0/16"
CLUSTER_DNS_DOMAIN = "cluster.local"
LOOPBACK = "127.0.0.1"

ADMIN = "admin"
ADMIN_GROUP = "system:masters"


@dataclass(frozen=True)
class ControlPlane:
    """A started control plane. Files of it lie below `run_dir`, programs in `bin_dir` (etcd, kube-apiserver,
    kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl, coredns, kwok).

    `address` is the IP address the API server listens on and advertises: loopback, or the host's address on the
    nodes' bridge, so that nothing outside this machine reaches it either way. `ports` maps a component to its port.
    `version` is Kubernetes' own, such as `v1.36.3`.
    """

    name: str
    run_dir: Path
    bin_dir: Path
    address: str
    ports: dict[str, int]
    version: str
    service_cidr: str = SERVICE_CIDR
    cluster_dns_domain: str = CLUSTER_DNS_DOMAIN

    @property
    def port(self) -> int:
        """The API server's port."""
        return self.ports["kube-apiserver"]

    @property
    def server(self) -> str:
        """The API server's URL for programs on this machine, and for pods where `address` is the bridge's."""
        return f"https://{self.address}:{self.port}"

    @property
    def authority(self) -> Authority:
        """Signs further client and serving certificates; the API server trusts its client certificates."""
        return Authority(self.run_dir / "pki")

    @property
    def ca_cert(self) -> Path:
        """The certificate that the API server is verified with, and client certificates likewise."""
        return self.authority.pair.cert

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of the cluster administrator."""
        return self.run_dir / "kubeconfigs" / f"{ADMIN}.yaml"

    @property
    def audit_log(self) -> Path:
        """One JSON object per line: every mutating request with user, verb, resource and outcome."""
        return self.run_dir / "logs" / "audit.log"

    def binary(self, program: str) -> Path:
        """The path of one of the cluster's programs, e.g. `kubelet`."""
        return self.bin_dir / program

    def kubeconfig(self, user: str, groups: Sequence[str] = (), server: str | None = None) -> Path:
        """Make (or make again) a kubeconfig that the API server takes as `user` in `groups`.

        Certificates are embedded, so the file alone is enough, also inside a container. `server` replaces the
        API server's URL (a proxy in between, for instance); its certificate must still be the API server's.
        """
        file = user.replace(":", "-")
        path = self.run_dir / "kubeconfigs" / f"{file}.yaml"
        pair = self.authority.client(user, groups, file=f"client-{file}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(
            render_kubeconfig(
                server or self.server,
                self.ca_cert.read_bytes(),
                pair.cert.read_bytes(),
                pair.key.read_bytes(),
                user,
            )
        )
        return path

    def save(self) -> None:
        """Write down what `load` needs, so that later commands find the running cluster."""
        text = json.dumps(asdict(self), default=str, indent=2)
        partial = self.run_dir / "control-plane.partial"
        partial.write_text(text)
        partial.replace(self.run_dir / "control-plane.json")


def load(name: str) -> ControlPlane | None:
    """The control plane of the cluster `name` as it was saved; None when there is none that can be read.

    It may have died since.
    """
    try:
        found = json.loads((paths.run_dir(name) / "control-plane.json").read_text())
        return ControlPlane(**{**found, "run_dir": Path(found["run_dir"]), "bin_dir": Path(found["bin_dir"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def render_kubeconfig(server: str, ca: bytes, cert: bytes, key: bytes, user: str) -> str:
    """A kubeconfig as JSON (which is YAML too) with everything embedded."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tierwright",
        "contexts": [{"name": "tierwright", "context": {"cluster": "tierwright", "user": user}}],
        "clusters": [
            {"name": "tierwright", "cluster": {"server": server, "certificate-authority-data": _b64(ca)}}
        ],
        "users": [
            {"name": user, "user": {"client-certificate-data": _b64(cert), "client-key-data": _b64(key)}},
        ],
    }
    return json.dumps(config, indent=1)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
