"""Says in plain sentences what this machine lacks for real nodes, and installs Debian packages where it may."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from dev.cluster import paths
from dev.cluster.machine.cgroups import hierarchies
from dev.cluster.machine.system_path import environment, system_path
from dev.cluster.network.host_network import drops_forwarded_packets
from dev.cluster.progress import following

_PACKAGE_OF = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "unshare": "util-linux",
    "debootstrap": "debootstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/cni/host-local": "containernetworking-plugins",
    "/usr/lib/cni/loopback": "containernetworking-plugins",
}
_NO_APT = "TIERWRIGHT_NO_APT"


def missing_requirements() -> list[str]:
    """What stands in the way of real nodes here, one sentence each; empty when they can run."""
    if platform.system() != "Linux":
        return [f"real nodes need Linux (this is {platform.system()})"]
    missing = []
    if os.geteuid() != 0:
        missing.append("real nodes need root (or sudo): they make network links, mounts and cgroups")
    if lacking := missing_programs():
        missing.append(f"not found: {', '.join(lacking)}; install with: {apt_command(lacking)}")
    if os.geteuid() == 0:
        missing += _missing_of_kernel()
    return missing


def provide(progress: Callable[[str], None] = print) -> list[str]:
    """Install the programs that real nodes lack, where that may be done and would be enough; what is missing then."""
    if missing := missing_requirements():
        install_missing_programs(paths.cache_dir() / "logs" / "apt.log", progress)
        missing = missing_requirements()
    return missing


def missing_programs() -> list[str]:
    """The programs and network plugins that are not installed."""
    path = system_path()
    return [name for name in _PACKAGE_OF if not shutil.which(name, path=path)]


def apt_command(lacking: Iterable[str]) -> str:
    """The one command that installs the packages of the programs that are lacking, and no other package."""
    packages = sorted({_PACKAGE_OF[name] for name in lacking})
    return f"apt-get install -y --no-install-recommends {' '.join(packages)}"


def install_missing_programs(log: Path, progress: Callable[[str], None] = print) -> None:
    """Install what `missing_programs` names with apt, where this is root, apt is there and TIERWRIGHT_NO_APT is unset.

    Nothing is installed where more is lacking than programs, so that real nodes could not run anyway.
    Never raises for a failed installation: `missing_requirements` says afterwards what is still lacking.
    """
    lacking = missing_programs()
    if not lacking or os.environ.get(_NO_APT) or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    if _missing_of_kernel():
        return
    command = apt_command(lacking)
    progress(f"installing system packages ({_NO_APT}=1 forbids it): {command}")
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**environment(), "DEBIAN_FRONTEND": "noninteractive"}
    with log.open("w") as output, following("installing system packages", log):
        for argv in (command.split(), ["apt-get", "update"], command.split()):
            done = subprocess.run(argv, stdout=output, stderr=output, env=env, check=False)
            if done.returncode == 0 and argv[1] == "install":
                return
    progress(f"apt-get failed; see {log}")


def _missing_of_kernel() -> list[str]:
    missing = []
    writable = [mount for mount, _ in hierarchies() if os.access(mount, os.W_OK)]
    if not writable or any(_read_only(mount) for mount in writable):
        missing.append("no writable cgroups below /sys/fs/cgroup (a container without --privileged?)")
    if not shutil.which("nft", path=system_path()):
        return missing
    if subprocess.run(
        ["nft", "list", "tables"], env=environment(), capture_output=True, check=False
    ).returncode:
        missing.append("the kernel refuses nftables (`nft list tables` fails); CAP_NET_ADMIN is needed")
    elif drops_forwarded_packets():
        missing.append(
            "a firewall of this machine drops all forwarded packets (Docker's does), those between pods too; "
            "allow them with: iptables -P FORWARD ACCEPT"
        )
    return missing


def _read_only(mount: Path) -> bool:
    return bool(os.statvfs(mount).f_flag & os.ST_RDONLY)
