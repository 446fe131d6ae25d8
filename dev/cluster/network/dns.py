"""Starts CoreDNS on the nodes' bridge: Services and pods by name; a name outside the cluster does not exist."""

import socket
import struct

from dev.cluster.api import Api
from dev.cluster.control_plane import grants
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.machine import processes
from dev.cluster.machine.processes import Process
from dev.cluster.network.subnets import AddressPlan
from dev.cluster.nodes.node_config import corefile

NAME = "coredns"
_USER = "tierwright-dev:coredns"
_RULES = [
    {
        "apiGroups": [""],
        "resources": ["endpoints", "services", "pods", "namespaces"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]


def start_dns(control_plane: ControlPlane, plan: AddressPlan, api: Api) -> Process:
    """Give CoreDNS the right to read Services and start it on `plan.control_plane`, port 53."""
    grants.grant(api, "tierwright-dev-coredns", _USER, _RULES)
    config = control_plane.run_dir / "Corefile"
    config.write_text(corefile(plan, control_plane.kubeconfig(_USER), control_plane.cluster_dns_domain))
    return processes.start(control_plane.run_dir, NAME, [control_plane.binary("coredns"), "-conf", config])


def resolves(plan: AddressPlan, name: str, timeout_s: float = 1.0) -> bool:
    """Whether the DNS server answers an A query for `name` with at least one address."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split("."))
    query = struct.pack("!6H", 0x7477, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(timeout_s)
        try:
            udp.sendto(query, (str(plan.control_plane), 53))
            header = udp.recv(512)[:12]
        except OSError:
            return False
    return len(header) == 12 and struct.unpack("!6H", header)[3] > 0
