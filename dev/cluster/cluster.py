"""A whole cluster by name: `up`, `down`, `attach`, and `cluster` for a `with` statement.

    with cluster(name="test", nodes="kwok") as running:
        subprocess.run([running.kubectl, "get", "nodes"], env=running.environ())

`nodes` is "kwok" (nodes and pods without processes), "real" (kubelet and containerd; needs root on Linux) or "none".
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from dev.cluster import given, paths, wrappers
from dev.cluster.api import Api
from dev.cluster.control_plane import launch
from dev.cluster.control_plane import plane as control_plane
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.images.base_image import ensure_base_images
from dev.cluster.kwok import nodes as kwok
from dev.cluster.machine import processes
from dev.cluster.machine.locks import locked
from dev.cluster.machine.processes import ComponentError, Process
from dev.cluster.network import host_network as network
from dev.cluster.network import slot
from dev.cluster.nodes import leftovers as node_leftovers
from dev.cluster.nodes import requirements as node_requirements
from dev.cluster.nodes.pools import POOLS
from dev.cluster.nodes.real_nodes import NodesError, start_real_nodes
from dev.cluster.programs import source, tools
from dev.cluster.volumes import provisioner

Nodes = Literal["kwok", "real", "none"]
Progress = Callable[[str], None]

_OWNER = "owner.json"
_STATE = "cluster.json"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. `kubeconfig` is the administrator's; `plane` is None for one that KUBECONFIG gave."""

    name: str
    run_dir: Path
    kubeconfig: Path
    version: str
    nodes: Nodes
    plane: ControlPlane | None

    @property
    def kubectl(self) -> Path:
        """A kubectl within one minor version of the cluster, which caches below the run folder only."""
        return wrappers.folder(self.run_dir) / "kubectl"

    @property
    def helm(self) -> Path:
        """A helm that is new enough and writes below the run folder only; downloaded when there is none.

        Raises packages.PackageError.
        """
        return wrappers.wrap(self.run_dir, "helm", tools.helm())

    @property
    def audit_log(self) -> Path:
        """The API server's audit log (see ControlPlane). Raises LookupError for a given cluster."""
        if self.plane is None:
            raise LookupError("the cluster that KUBECONFIG names keeps its audit log elsewhere")
        return self.plane.audit_log

    def environ(self) -> dict[str, str]:
        """This process's environment with KUBECONFIG, and with the cluster's tools first on PATH."""
        folder = wrappers.folder(self.run_dir)
        path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def api(self) -> Api:
        """A client with the administrator's rights. Raises ValueError for exotic kubeconfigs of given clusters."""
        return Api.from_kubeconfig(self.kubeconfig)


def up(
    name: str = "dev",
    nodes: Nodes = "kwok",
    progress: Progress = print,
    *,
    use_given: bool = True,
    shared: bool = True,
) -> Cluster:
    """Start the cluster `name`, or return it when it runs already with the same kind of nodes.

    With `shared` off, one that runs already is an error: it is somebody else's, who may end it at any moment.

    A cluster that KUBECONFIG names is used instead unless `use_given` is off; nothing is started then. What a killed
    run of this name left behind is removed first. After a failure nothing is left but the caches.

    Raises processes.ComponentError, source.SourceError, build.BuildError, packages.PackageError, nodes.NodesError,
    network.NetworkError; each says what to do.
    """
    return _up(name, nodes, progress, use_given=use_given, owned=False, shared=shared)[0]


def down(name: str = "dev", progress: Progress = print) -> bool:
    """Stop the cluster `name` and remove all it left, also when all its processes were killed; False when none was."""
    with locked(paths.lock_file(name), f"cluster {name} is being started or stopped by another process"):
        run_dir = paths.run_dir(name)
        if not run_dir.exists() and not processes.strays(run_dir):
            return False
        _clear(run_dir)
    progress(f"cluster {name} is down")
    return True


def attach(name: str) -> Cluster:
    """The running cluster `name`. Raises LookupError when none of that name runs."""
    if found := _load(name):
        return found
    raise LookupError(
        f"no cluster {name!r} runs; start it with: .venv/bin/python -m dev.cluster up --name {name}"
    )


@contextlib.contextmanager
def cluster(
    name: str, nodes: Nodes = "kwok", progress: Progress = print, *, use_given: bool = True
) -> Iterator[Cluster]:
    """The cluster for the duration of a `with` block; one that ran before, or that KUBECONFIG gave, goes on running.

    If this process is killed, the next `up` or `cluster` of any name stops what it left.
    """
    running, started = _up(name, nodes, progress, use_given=use_given, owned=True)
    try:
        yield running
    finally:
        if started:
            down(name, progress)


def daemons(name: str) -> list[Process]:
    """The records of all the cluster's daemons, in the order of their start; see processes.alive."""
    return processes.load(paths.run_dir(name))


def sweep(progress: Progress = print) -> None:
    """Stop the clusters whose `with` block ended by the death of its process."""
    for file in paths.clusters_dir().glob(f"*/{_OWNER}"):
        try:
            owner = Process(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            continue
        if not processes.alive(owner):
            progress(f"cluster {file.parent.name} was left behind by process {owner.pid}, which is gone")
            down(file.parent.name, progress)


def _up(
    name: str, nodes: Nodes, progress: Progress, *, use_given: bool, owned: bool, shared: bool = True
) -> tuple[Cluster, bool]:
    """The cluster, and whether it was started now."""
    run_dir = paths.run_dir(name)
    sweep(progress)
    with locked(paths.lock_file(name), f"cluster {name} is being started or stopped by another process"):
        if use_given and (found := given.find(os.environ, progress)):
            progress(
                f"using the cluster that KUBECONFIG names: context {found.context}, Kubernetes {found.version}"
            )
            existed = run_dir.exists()
            return _adopt(name, run_dir, found), not existed
        running = _load(name)
        if running and not shared:
            raise ComponentError(
                f"cluster {name} runs already, started by somebody else. Wait until it is gone, or end it with: "
                f".venv/bin/python -m dev.cluster down --name {name}"
            )
        if running and running.nodes == nodes:
            progress(f"cluster {name} is running already")
            return running, False
        if running:
            raise ComponentError(
                f"cluster {name} is running with nodes={running.nodes}; stop it first (.venv/bin/python -m dev.cluster down "
                f"--name {name}) or choose another name"
            )
        _clear(run_dir)
        run_dir.mkdir(parents=True, mode=0o700)
        try:
            if owned:
                (run_dir / _OWNER).write_text(json.dumps(asdict(processes.current())))
            return _start(name, nodes, run_dir, progress), True
        except BaseException:
            _keep_logs(run_dir, progress)
            _clear(run_dir)
            raise


def _start(name: str, nodes: Nodes, run_dir: Path, progress: Progress) -> Cluster:
    if nodes == "real" and (missing := node_requirements.provide(progress)):
        raise NodesError("real nodes cannot run here:\n" + "\n".join(f"  - {each}" for each in missing))
    if nodes == "real":
        slot.require_free()  # before minutes go into a build that this machine has no place for
    needed = source.CONTROL_PLANE + (source.REAL_NODES if nodes == "real" else ())
    programs = source.programs(needed)
    progress(f"Kubernetes {programs.version} from {programs.origin}")
    if nodes == "real":
        plane = _with_real_nodes(name, run_dir, programs, progress)
    else:
        kwok_program = source.kwok() if nodes == "kwok" else None
        plane = launch.start_control_plane(
            name, run_dir, programs.bin_dir, programs.version, node_grace_s=kwok.NODE_GRACE_S
        )
        _with_kwok_nodes(plane, kwok_program)
    kubectl = tools.kubectl(programs.version, programs.bin_dir)
    running = Cluster(name, run_dir, plane.admin_kubeconfig, programs.version, nodes, plane)
    return _save(running, kubectl)


def _with_real_nodes(name: str, run_dir: Path, programs: source.Programs, progress: Progress) -> ControlPlane:
    images = ensure_base_images(progress)
    plan = network.prepare_network(run_dir, name)
    plane = launch.start_control_plane(
        name, run_dir, programs.bin_dir, programs.version, str(plan.control_plane), str(plan.services)
    )
    start_real_nodes(plane, POOLS, images.pause_archive, progress)
    return plane


def _with_kwok_nodes(plane: ControlPlane, program: Path | None) -> None:
    """Volumes are provisioned either way; nodes only where `program`, kwok, is there."""
    api = Api.from_kubeconfig(plane.admin_kubeconfig)
    watched = [provisioner.start_provisioner(plane, api)]
    if program:
        nodes = kwok.default_nodes()
        watched = [kwok.start_kwok(plane, program), *watched]
        kwok.create_nodes(api, nodes)
        kwok.wait_ready(api, nodes, watched)
    api.close()


def _adopt(name: str, run_dir: Path, found: given.Given) -> Cluster:
    kubeconfig = run_dir / "kubeconfig.yaml"
    run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(found.flat)
    return _save(Cluster(name, run_dir, kubeconfig, found.version, "none", None), found.kubectl)


def _save(running: Cluster, kubectl: Path) -> Cluster:
    wrappers.wrap(running.run_dir, "kubectl", kubectl)
    if helm := tools.helm_without_download():
        wrappers.wrap(running.run_dir, "helm", helm)
    state = {"kubeconfig": str(running.kubeconfig), "version": running.version, "nodes": running.nodes}
    (running.run_dir / _STATE).write_text(json.dumps(state))
    return running


def _load(name: str) -> Cluster | None:
    """The cluster when it is whole: started to the end, all daemons alive, the API server ready."""
    run_dir = paths.run_dir(name)
    try:
        state = json.loads((run_dir / _STATE).read_text())
        plane = control_plane.load(name)
        found = Cluster(name, run_dir, Path(state["kubeconfig"]), state["version"], state["nodes"], plane)
    except (OSError, ValueError, KeyError, TypeError):  # cut short by a full disk, or of another release
        return None
    whole = processes.load(run_dir)
    if plane is None:
        # A cluster that KUBECONFIG gave has no daemons; one with daemons has lost the file that describes it.
        return None if whole else found
    if not all(processes.alive(each) for each in whole):
        return None
    api = found.api()
    try:
        # A busy machine's API server may be slow to say that it is ready; that alone must not end a cluster.
        processes.wait_until(api.ready, "the API server to be ready", whole, deadline_s=60)
    except ComponentError:
        return None
    finally:
        api.close()
    return found


def _keep_logs(run_dir: Path, progress: Progress) -> None:
    if (run_dir / "logs").is_dir():
        kept = paths.cache_dir() / "logs" / "last-failed-cluster"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(run_dir / "logs", kept)
        progress(f"the logs of the cluster that did not start are kept in {kept}")


def _clear(run_dir: Path) -> None:
    """Stop and remove all that lies in or was started from the run folder."""
    if any((run_dir / file).exists() for file in ("network.json", node_leftovers.STATE)):
        node_leftovers.stop_leftovers(run_dir)
    recorded = processes.load(run_dir)
    # The API server ends only after the last word to etcd.
    processes.stop([process for process in recorded if process.name != "etcd"], grace_s=5)
    processes.stop(recorded, grace_s=5)
    processes.stop(processes.strays(run_dir), grace_s=1)
    if run_dir.exists():
        shutil.rmtree(run_dir)
