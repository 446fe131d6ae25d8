"""What a cluster could leave behind on the machine: one snapshot before, one after, and they must be equal."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.images.buildah import storage_dir
from dev.cluster.machine import processes
from dev.cluster.machine.cgroups import hierarchies
from dev.cluster.machine.mounts import mounts_below
from dev.cluster.network import slot
from dev.cluster.network.commands import NetworkError
from dev.cluster.network.host_network import read_sysctl
from tests.support.waiting import eventually

_SYSCTLS = (
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.route_localnet",
    "net.ipv4.conf.all.forwarding",
    "net.ipv4.conf.default.forwarding",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
)
# Where containerd, runc, kubelet, CNI and CoreDNS write unless told otherwise.
_PLACES = (
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/cni",
    "/var/log/containers",
    "/var/log/pods",
    "/run/containerd",
    "/run/runc",
    "/run/netns",
    "/var/run/netns",
    "/etc/cni",
    "/etc/kubernetes",
    "/etc/containerd",
    "/opt/containerd",
    "/opt/cni",
    "/usr/libexec/kubernetes",
)


@dataclass(frozen=True)
class Machine:
    """All that matters outside the cache, as sets and dicts that compare."""

    links: frozenset[str]
    routes: frozenset[str]
    tables: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    sysctls: tuple[tuple[str, str | None], ...]
    files: frozenset[str]


def wait_until_free(deadline_s: float = 600.0) -> None:
    """Wait until no other cluster with real nodes (a demo, another test run) is on the machine: one fits.

    Raises:
        AssertionError: one is still there at the deadline.
    """

    def is_free() -> bool:
        try:
            slot.require_free()
        except NetworkError as error:
            raise AssertionError(str(error)) from None
        return True

    eventually(is_free, "the end of the other cluster with real nodes", deadline_s)


@contextlib.contextmanager
def real_nodes(name: str) -> Iterator[Cluster]:
    """A cluster with real nodes for the duration of a `with` block, started when the machine is free for it.

    Raises:
        AssertionError: another such cluster does not end.
    """
    deadline = time.monotonic() + 600
    with contextlib.ExitStack() as stack:
        while True:
            wait_until_free()
            try:
                running = stack.enter_context(clusters.cluster(name, nodes="real", use_given=False))
                break
            except NetworkError:  # somebody else was quicker
                assert time.monotonic() < deadline, "the machine was never free for long enough"
        yield running


def snapshot() -> Machine:
    """The machine now. Mounts of image builds are left out: somebody else may be building."""
    tops = [folder for mount, _ in hierarchies() for folder in mount.iterdir() if folder.is_dir()]
    walked = [Path(folder) for place in _PLACES for folder, _, _ in os.walk(place)]
    files = {file for folder in walked for file in [folder, *_children(folder)]}
    return Machine(
        links=frozenset(str(link["ifname"]) for link in json.loads(_run("ip", "-j", "link", "show"))),
        routes=frozenset(_run("ip", "-4", "route", "show", "table", "all").splitlines()),
        tables=frozenset(_run("nft", "list", "tables").splitlines()),
        mounts=frozenset(map(str, mounts_below(Path("/"))))
        - frozenset(map(str, mounts_below(storage_dir()))),
        cgroups=frozenset(str(folder) for folder in tops),
        sysctls=tuple((name, read_sysctl(name)) for name in _SYSCTLS),
        files=frozenset(str(file) for file in files),
    )


def processes_of(run_dir: Path) -> list[str]:
    """Processes, zombies apart, that carry the cluster's mark, are named after its run folder, or live in it."""
    found = {f"{process.name} ({process.pid})" for process in processes.strays(run_dir)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            cgroup = (folder / "cgroup").read_text()
        except OSError:
            continue
        # A zombie has no command line left; its parent, or init, takes it away when it likes.
        if words and (str(run_dir) in words or "/kubepods/" in cgroup):
            found.add(f"{words.replace(chr(0), ' ')} ({folder.name})")
    return sorted(found)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:  # ended while we looked
        return []


def _run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
