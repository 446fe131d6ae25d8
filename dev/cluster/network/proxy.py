"""Starts kube-proxy in nftables mode: Services of all real nodes of this machine are reached through its rules."""

from dev.cluster.api import Api
from dev.cluster.control_plane import grants
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.machine import processes
from dev.cluster.machine.ports import free_ports
from dev.cluster.machine.processes import Process
from dev.cluster.machine.system_path import system_path
from dev.cluster.network.subnets import AddressPlan
from dev.cluster.nodes.node_config import kube_proxy_config

NAME = "kube-proxy"
_USER = "system:kube-proxy"


def start_proxy(control_plane: ControlPlane, plan: AddressPlan, first_node: str, api: Api) -> Process:
    """Bind kube-proxy's role and start it. `first_node` is the node whose name it runs under."""
    grants.bind(api, "tierwright-dev-kube-proxy", _USER, role="system:node-proxier")
    health, metrics = free_ports(2)
    config = control_plane.run_dir / "kube-proxy.json"
    config.write_text(kube_proxy_config(plan, control_plane.kubeconfig(_USER), first_node, health, metrics))
    argv = [str(control_plane.binary("kube-proxy")), f"--config={config}"]
    return processes.start(control_plane.run_dir, NAME, argv, env={"PATH": system_path()})
