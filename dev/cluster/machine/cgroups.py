"""Makes and removes the cgroups that real nodes put their pods in, on cgroup v1, v2 and both at once."""

import contextlib
import os
import signal
import time
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")


class BusyCgroupError(OSError):
    """Processes in a cluster's cgroups survive SIGKILL, so the cgroups cannot be removed."""


def hierarchies(table: str | None = None) -> list[tuple[Path, str]]:
    """Mount point and type (`cgroup` or `cgroup2`) of every hierarchy. `table`: text of /proc/self/mounts."""
    if table is None:
        table = _MOUNTS.read_text() if _MOUNTS.exists() else ""
    fields = [line.split(" ") for line in table.splitlines()]
    return [
        (Path(field[1]), field[2]) for field in fields if len(field) > 2 and field[2] in ("cgroup", "cgroup2")
    ]


def make(tag: str, node: str) -> str:
    """Make the cgroup of one node in every hierarchy and return its path, as the kubelet's `cgroupRoot` wants it."""
    for mount, kind in hierarchies():
        folder = mount / tag / node
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "cgroup2":
            _enable_controllers([mount, folder.parent])
    return f"/{tag}/{node}"


def processes(tag: str) -> set[int]:
    """The pids of all processes in the cluster's cgroups."""
    found: set[int] = set()
    for mount, _ in hierarchies():
        # os.walk passes over what vanishes meanwhile, as the cgroups of ending containers do.
        for folder, _, _ in os.walk(mount / tag):
            with contextlib.suppress(OSError):
                found.update(int(word) for word in Path(folder, "cgroup.procs").read_text().split())
    return found


def kill(tag: str, deadline_s: float = 10.0) -> None:
    """SIGKILL everything in the cluster's cgroups until nothing is left. Raises BusyCgroupError."""
    deadline = time.monotonic() + deadline_s
    while pids := processes(tag):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise BusyCgroupError(f"processes {sorted(pids)[:10]} of cgroup {tag} survive SIGKILL")
        time.sleep(0.05)


def remove(tag: str, deadline_s: float = 5.0) -> None:
    """Remove the cluster's cgroups; `kill` comes first. Raises BusyCgroupError when one stays busy."""
    deadline = time.monotonic() + deadline_s
    for mount, _ in hierarchies():
        top = mount / tag
        while top.exists():
            folders = [top, *(Path(folder) for folder, _, _ in os.walk(top))]
            for folder in sorted(set(folders), key=lambda each: len(each.parts), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if top.exists() and time.monotonic() > deadline:
                raise BusyCgroupError(f"cgroup {top} cannot be removed (see its cgroup.procs)")
            if top.exists():
                time.sleep(0.05)


def _enable_controllers(folders: list[Path]) -> None:
    for folder in folders:
        for controller in ("cpuset", "cpu", "io", "memory", "pids", "hugetlb"):
            # Those that this kernel lacks, or has bound to cgroup v1, are refused.
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
