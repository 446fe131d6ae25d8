"""Says in plain sentences what this machine lacks for real nodes."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from dev.cluster.cgroups import hierarchies
from dev.cluster.network import drops_forwarded_packets

PACKAGES = (
    "containerd",
    "runc",
    "buildah",
    "debootstrap",
    "containernetworking-plugins",
    "nftables",
    "iproute2",
)
APT_COMMAND = f"apt-get install -y --no-install-recommends {' '.join(PACKAGES)}"
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PROGRAMS = (
    "containerd",
    "ctr",
    "runc",
    "buildah",
    "debootstrap",
    "nft",
    "ip",
    "chroot",
    "umount",
    "tar",
    "ldd",
)
_CNI_PLUGINS = ("bridge", "host-local", "loopback")


def missing_requirements() -> list[str]:
    """What stands in the way of real nodes here, one sentence each; empty when they can run."""
    if platform.system() != "Linux":
        return [f"real nodes need Linux (this is {platform.system()})"]
    missing = []
    if os.geteuid() != 0:
        missing.append("real nodes need root, or sudo: they make network links, mounts and cgroups")
    if lacking := [*_missing_programs(), *_missing_plugins()]:
        missing.append(f"{', '.join(lacking)} not found; install with: {APT_COMMAND}")
    if os.geteuid() == 0:
        missing += _missing_of_kernel()
    return missing


def system_path() -> str:
    """PATH with the folders of system programs, which a user's PATH often lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])


def _missing_programs() -> list[str]:
    return [program for program in _PROGRAMS if not shutil.which(program, path=system_path())]


def _missing_plugins() -> list[str]:
    return [f"/usr/lib/cni/{name}" for name in _CNI_PLUGINS if not Path("/usr/lib/cni", name).exists()]


def _missing_of_kernel() -> list[str]:
    missing = []
    writable = [mount for mount, _ in hierarchies() if os.access(mount, os.W_OK)]
    if not writable or any(_read_only(mount) for mount in writable):
        missing.append("no writable cgroups below /sys/fs/cgroup (a container without --privileged?)")
    if not shutil.which("nft", path=system_path()):
        return missing
    if subprocess.run(["nft", "list", "tables"], capture_output=True, check=False).returncode:
        missing.append("the kernel refuses nftables (`nft list tables` fails); CAP_NET_ADMIN is needed")
    elif drops_forwarded_packets():
        missing.append(
            "a firewall of this machine drops all forwarded packets (Docker's does), those between pods too; "
            "allow them with: iptables -P FORWARD ACCEPT"
        )
    return missing


def _read_only(mount: Path) -> bool:
    return bool(os.statvfs(mount).f_flag & os.ST_RDONLY)
