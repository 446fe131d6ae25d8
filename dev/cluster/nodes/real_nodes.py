"""Starts and stops real nodes: one containerd and one kubelet each, and one kube-proxy, DNS server and provisioner.

Order of calls: `network.prepare_network`, then the control plane on `AddressPlan.control_plane`, then
`start_real_nodes`. `stop_leftovers` undoes all three things that are not the control plane's, after a crash as well.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.cluster import paths
from dev.cluster.api import MERGE_PATCH, Api, ApiError
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.images.base_image import PAUSE_IMAGE
from dev.cluster.machine import cgroups, processes
from dev.cluster.machine.system_path import system_path
from dev.cluster.network import dns, proxy
from dev.cluster.network import host_network as network
from dev.cluster.network.subnets import AddressPlan
from dev.cluster.nodes import node_config
from dev.cluster.nodes.containerd import Containerd
from dev.cluster.nodes.leftovers import STATE, existing_folders
from dev.cluster.nodes.leftovers import stop_leftovers as stop_leftovers
from dev.cluster.nodes.node_config import NodeFiles
from dev.cluster.nodes.pools import Pool
from dev.cluster.nodes.readiness import takes_pods
from dev.cluster.nodes.requirements import missing_requirements
from dev.cluster.volumes import provisioner

_LONGEST_SOCKET_PATH = 107
_SOCKET_OF_KUBELET = "pod-resources/kubelet.sock"


class NodesError(RuntimeError):
    """Real nodes could not be started; the message says why and what to do."""


@dataclass(frozen=True)
class RealNode:
    """One node: its name (`fast-1`), its pool's name, its number over all pools, its IP address."""

    name: str
    pool: str
    index: int
    address: str


@dataclass(frozen=True)
class RealNodes:
    """The real nodes of a cluster, in the order of their index."""

    run_dir: Path
    nodes: tuple[RealNode, ...]

    def stop(self) -> None:
        """Undo `start_real_nodes` and `prepare_network`. Pods are killed without grace."""
        stop_leftovers(self.run_dir)

    def load_image(self, reference: str, archive: Path, nodes: Sequence[str] | None = None) -> None:
        """Import a docker-archive, whose image is called `reference`, into `nodes` (all when None), all at once.

        A node that has this very archive already is passed over. Raises ContainerdError.
        """
        chosen = [node for node in self.nodes if nodes is None or node.name in nodes]
        with ThreadPoolExecutor(len(chosen) or 1) as pool:
            imports = [
                pool.submit(_containerd(self.run_dir, node).import_image, archive, reference)
                for node in chosen
            ]
            for done in imports:
                done.result()


def start_real_nodes(
    control_plane: ControlPlane,
    pools: Sequence[Pool],
    pause_archive: Path,
    progress: Callable[[str], None] = print,
) -> RealNodes:
    """Start `real_nodes` nodes of each pool and return when all are Ready, labelled, tainted, with their devices.

    `pause_archive` is `BaseImages.pause_archive`. Raises NodesError when this machine cannot run them or the control
    plane is not on the nodes' bridge, processes.ComponentError with the end of a daemon's log when one fails; call
    `stop_leftovers` then.
    """
    if missing := missing_requirements():
        raise NodesError(
            "real nodes cannot run here:\n" + "\n".join(f"  - {sentence}" for sentence in missing)
        )
    run_dir = control_plane.run_dir
    plan = network.load_network(run_dir)
    if plan is None or control_plane.address != str(plan.control_plane):
        raise NodesError(
            "the control plane is not on the nodes' bridge: call network.prepare_network(run_dir, name) first and "
            "give its control_plane address to the control plane"
        )
    assigned = [(pool, number) for pool in pools for number in range(1, pool.real_nodes + 1)]
    nodes = [
        RealNode(pool.node_name(number), pool.name, index, str(plan.node(index)))
        for index, (pool, number) in enumerate(assigned, start=1)
    ]
    if not nodes:
        raise NodesError("no pool asks for a real node (`real_nodes` is 0 in all of them)")
    _check_socket_paths(run_dir, nodes)
    progress(f"starting {len(nodes)} real nodes: {', '.join(node.name for node in nodes)}")
    state = {"existed": existing_folders(), "nodes": [asdict(node) for node in nodes]}
    (run_dir / STATE).write_text(json.dumps(state, indent=1))
    network.add_service_route(plan, control_plane.service_cidr)
    for node in nodes:
        _start_containerd(run_dir, plan, node)
    api = Api.from_kubeconfig(control_plane.admin_kubeconfig)
    daemons = [
        proxy.start_proxy(control_plane, plan, nodes[0].name, api),
        dns.start_dns(control_plane, plan, api),
        provisioner.start_provisioner(control_plane, api),
    ]
    for node, (pool, number) in zip(nodes, assigned, strict=True):
        daemons += _start_kubelet(control_plane, plan, node, pool, number, pause_archive)
    for node, (pool, _) in zip(nodes, assigned, strict=True):
        _advertise_devices(api, node, pool, daemons)
    processes.wait_until(lambda: _all_ready(api, nodes), "Ready of all nodes", daemons)
    name = f"kubernetes.default.svc.{control_plane.cluster_dns_domain}"
    processes.wait_until(
        lambda: dns.resolves(plan, name), "an answer of the DNS server", [daemons[1], *daemons]
    )
    api.close()
    return RealNodes(run_dir, tuple(nodes))


def load(run_dir: Path) -> RealNodes | None:
    """The real nodes that were started for this run folder; None when there are none."""
    try:
        found = json.loads((run_dir / STATE).read_text())["nodes"]
    except (OSError, ValueError, KeyError):
        return None
    return RealNodes(run_dir, tuple(RealNode(**node) for node in found))


def node_files(run_dir: Path, node: str) -> NodeFiles:
    """Where the node of this name keeps its files."""
    return NodeFiles(run_dir / "n" / node, paths.cache_dir() / "nodes" / node)


def _containerd(run_dir: Path, node: RealNode) -> Containerd:
    return Containerd(node.name, node_files(run_dir, node.name))


def _start_containerd(run_dir: Path, plan: AddressPlan, node: RealNode) -> None:
    files = node_files(run_dir, node.name)
    for folder in (files.run / "cni", files.run / "logs", files.kubelet_root):
        folder.mkdir(parents=True, exist_ok=True)
    _containerd(run_dir, node).prepare_store()
    network.add_node_address(plan, node.index)
    files.containerd_config.write_text(node_config.containerd_toml(files, PAUSE_IMAGE))
    (files.run / "cni" / "10-bridge.conflist").write_text(node_config.cni_conflist(plan, node.index, files))
    _daemon(run_dir, f"containerd-{node.name}", ["containerd", "--config", str(files.containerd_config)])


def _start_kubelet(
    control_plane: ControlPlane,
    plan: AddressPlan,
    node: RealNode,
    pool: Pool,
    number: int,
    pause_archive: Path,
) -> list[processes.Process]:
    run_dir = control_plane.run_dir
    files, containerd = node_files(run_dir, node.name), _containerd(run_dir, node)
    daemon = processes.find(run_dir, f"containerd-{node.name}")
    watched = [daemon] if daemon else []
    processes.wait_until(containerd.answers, "an answer of containerd", watched, deadline_s=60)
    containerd.import_image(pause_archive, PAUSE_IMAGE)
    serving = control_plane.authority.serving(f"kubelet-{node.name}", [node.name, node.address])
    files.kubelet_config.write_text(
        node_config.kubelet_config(
            plan,
            node.index,
            files,
            pool,
            cgroup_root=cgroups.make(plan.tag, node.name),
            client_ca=control_plane.ca_cert,
            serving_cert=serving.cert,
            serving_key=serving.key,
            domain=control_plane.cluster_dns_domain,
        )
    )
    kubeconfig = control_plane.kubeconfig(f"system:node:{node.name}", ["system:nodes"])
    argv = node_config.kubelet_argv(
        control_plane.binary("kubelet"),
        plan,
        node.index,
        files,
        node.name,
        pool.node_labels(number),
        kubeconfig,
    )
    return [*watched, _daemon(run_dir, f"kubelet-{node.name}", argv)]


def _daemon(run_dir: Path, name: str, argv: Sequence[str]) -> processes.Process:
    program = _which(argv[0])
    return processes.start(run_dir, name, [program, *argv[1:]], env={"PATH": system_path()})


def _advertise_devices(api: Api, node: RealNode, pool: Pool, daemons: Sequence[processes.Process]) -> None:
    path = f"/api/v1/nodes/{node.name}"
    processes.wait_until(lambda: api.exists(path), f"the registration of {node.name}", daemons)
    if not pool.devices:
        return
    devices = {name: str(count) for name, count in pool.devices.items()}
    patch = {"status": {"capacity": devices, "allocatable": devices}}
    deadline = time.monotonic() + 30
    while True:
        try:
            api.request("PATCH", f"{path}/status", patch, MERGE_PATCH)
            return
        except ApiError as error:
            if error.status != 409 or time.monotonic() > deadline:
                raise


def _all_ready(api: Api, nodes: Sequence[RealNode]) -> bool:
    items = {item["metadata"]["name"]: item for item in api.request("GET", "/api/v1/nodes").get("items", [])}
    return all(takes_pods(items.get(node.name, {})) for node in nodes)


def _check_socket_paths(run_dir: Path, nodes: Sequence[RealNode]) -> None:
    for node in nodes:
        socket = node_files(run_dir, node.name).kubelet_root / _SOCKET_OF_KUBELET
        if len(str(socket)) > _LONGEST_SOCKET_PATH:
            raise NodesError(
                f"the path of a unix socket would be too long ({len(str(socket))} of {_LONGEST_SOCKET_PATH} characters: "
                f"{socket}); choose a shorter cluster name, or a shorter cache folder by TIERWRIGHT_CACHE"
            )


def _which(program: str) -> str:
    found = shutil.which(program, path=system_path())
    if found is None:
        raise NodesError(f"{program} not found on PATH or in the folders of system programs")
    return found
