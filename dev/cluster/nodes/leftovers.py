"""Removes every trace of real nodes from the machine, whether they run, were stopped half-way or were killed.

Works from the run folder alone: daemons by their records and marks, containers by their cgroups, links and tables by
the cluster's tag, mounts by their place. What existed before the nodes stays.
"""

import contextlib
import json
import re
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine import cgroups, processes
from dev.cluster.machine.mounts import remove_tree, unmount_below
from dev.cluster.network import host_network as network
from dev.cluster.nodes.containerd import Containerd
from dev.cluster.nodes.node_config import NodeFiles

STATE = "nodes.json"
_OWN_NAMES = re.compile(r"(kubelet|kube-proxy|coredns|volume-provisioner)(-.+)?")
_SHIMS = Path("/run/containerd/s")
_NETWORK_RESULTS = Path("/var/lib/cni/results")
# Fixed places of kubelet, containerd and CNI that no setting moves; a folder that was not there before goes again.
_FOLDERS = (
    "/var/lib/kubelet",
    "/var/lib/kubelet/device-plugins",
    "/var/log/containers",
    "/var/log/pods",
    "/var/lib/cni",
    "/var/lib/cni/results",
    "/run/containerd",
    "/run/containerd/s",
    "/opt/containerd",
)


def existing_folders() -> list[str]:
    """Which of the folders outside the run folder that nodes write to are there already."""
    return [folder for folder in _FOLDERS if Path(folder).exists()]


def stop_leftovers(run_dir: Path) -> None:
    """Stop the nodes of this run folder and undo all that they and `prepare_network` made. Idempotent.

    The control plane's own processes are left alone. Image stores stay in the cache; one that could not be left in
    order is emptied by the next start. A run folder from before a reboot costs a cluster that came since nothing.
    """
    plan, live = network.load_network(run_dir), network.is_live(run_dir)
    recorded = processes.load(run_dir)
    _end([process for process in recorded if _OWN_NAMES.fullmatch(process.name)], run_dir)
    if plan:
        cgroups.kill(plan.tag)
    containerds = [process for process in recorded if process.name.startswith("containerd-")]
    for process in containerds:
        if processes.alive(process):
            node = process.name.removeprefix("containerd-")
            files = NodeFiles(run_dir / "n" / node, paths.cache_dir() / "nodes" / node)
            containerd = Containerd(node, files)
            if containerd.remove_containers():
                containerd.mark_clean()
    _end(containerds, run_dir)
    shims = [process for process in processes.strays(run_dir) if process.name.startswith("containerd")]
    processes.stop(shims, grace_s=0.5)
    if plan:
        cgroups.kill(plan.tag)
    unmount_below(run_dir)
    if live:
        unmount_below(paths.cache_dir() / "nodes")
    if plan:
        cgroups.remove(plan.tag)
    if plan:
        _remove_network_results(plan.tag)
    _remove_fixed_places(run_dir, live)
    for folder in (run_dir / "n", run_dir / "volumes"):
        remove_tree(folder)
    # Last: from here on another cluster may start, whose files are not ours to remove.
    network.remove_network(run_dir)


def _end(daemons: list[processes.Process], run_dir: Path) -> None:
    processes.stop(daemons, grace_s=5.0)
    for daemon in daemons:
        processes.forget(run_dir, daemon.name)


def _remove_fixed_places(run_dir: Path, live: bool) -> None:
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(run_dir):
            link.unlink(missing_ok=True)
    listening = _listening_sockets()
    for socket in _SHIMS.glob("*"):
        if str(socket) not in listening:
            socket.unlink(missing_ok=True)
    state = run_dir / STATE
    if not state.exists():
        return
    existed = json.loads(state.read_text())["existed"]
    made_here = [name for name in _FOLDERS if name not in existed] if live else []
    for folder in sorted(made_here, key=len, reverse=True):
        with contextlib.suppress(OSError):  # somebody else has put something there since, or it is not there
            for file in _disposable(Path(folder)):
                file.unlink()
            Path(folder).rmdir()
    state.unlink()


def _remove_network_results(tag: str) -> None:
    """What CNI noted of each pod sandbox that did not end in order: named network, sandbox, interface."""
    for noted in _NETWORK_RESULTS.glob(f"{tag}-*"):
        sandbox = noted.name.removeprefix(f"{tag}-").rpartition("-")[0]
        for file in _NETWORK_RESULTS.glob(f"*-{sandbox}-*"):
            file.unlink(missing_ok=True)


def _disposable(folder: Path) -> list[Path]:
    if folder.name not in ("device-plugins", "results"):
        return []
    return [file for file in folder.iterdir() if not file.is_dir()]


def _listening_sockets() -> set[str]:
    table = Path("/proc/net/unix")
    if not table.exists():
        return set()
    return {line.split()[-1] for line in table.read_text().splitlines()[1:] if "/" in line}
