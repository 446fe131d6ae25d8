"""Makes and removes what real nodes need of this machine's network: bridges, addresses, a route, nft rules, sysctls.

Everything made is named after the cluster's tag, and what was changed is written to `network.json` in the run folder
before it is changed, so that `remove_network` also undoes what a killed process had begun.
"""

import contextlib
import json
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

from dev.cluster.machine.locks import locked
from dev.cluster.machine.system_path import environment
from dev.cluster.network import slot
from dev.cluster.network.commands import NetworkError, listed, output, run, run_quietly
from dev.cluster.network.subnets import AddressPlan, NoFreeSubnetError, choose

STATE = "network.json"
_WANTED_SYSCTLS = {
    "net.ipv4.ip_forward": 1,
    "fs.inotify.max_user_instances": 1024,
    "fs.inotify.max_user_watches": 65536,
}
_SYSCTLS_OF_DAEMONS = (
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
    "net.ipv4.conf.all.route_localnet",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
)


def prepare_network(run_dir: Path, cluster: str) -> AddressPlan:
    """Make the network of the real nodes of `cluster` and return its addresses.

    Must come before the control plane: the API server listens on, and advertises, `AddressPlan.control_plane`, and
    hands out ClusterIPs from `AddressPlan.services`. Safe to call again after a crash. Raises NetworkError when
    another cluster of this kind runs on the machine or no addresses are left.
    """
    remove_network(run_dir)
    with locked(run_dir.parent / "network.lock", "another cluster with real nodes is being started"):
        return _make_network(run_dir, cluster)


def _make_network(run_dir: Path, cluster: str) -> AddressPlan:
    slot.require_free()
    try:
        plan = choose(f"{cluster}:{run_dir}", _networks_in_use())
    except NoFreeSubnetError as error:
        raise NetworkError(str(error)) from error
    names = {*_WANTED_SYSCTLS, *_SYSCTLS_OF_DAEMONS}
    before = {name: value for name in sorted(names) if (value := read_sysctl(name)) is not None}
    run_dir.mkdir(parents=True, exist_ok=True)
    state = {"tag": plan.tag, "network": str(plan.network), "sysctls": before}
    (run_dir / STATE).write_text(json.dumps(state, indent=1))
    # First, since it is what other clusters look for.
    run(["nft", "-f", "-"], stdin=firewall(plan, slot.comment(run_dir)))
    for name, wanted in _WANTED_SYSCTLS.items():
        if int(before.get(name, "0")) < wanted:
            _sysctl_path(name).write_text(str(wanted))
    run(["ip", "link", "add", plan.node_bridge, "type", "bridge"])
    run(["ip", "addr", "add", f"{plan.control_plane}/{plan.nodes.prefixlen}", "dev", plan.node_bridge])
    run(["ip", "link", "set", plan.node_bridge, "up"])
    return plan


def load_network(run_dir: Path) -> AddressPlan | None:
    """The plan that `prepare_network` made for this run folder; None when there is none."""
    try:
        state = json.loads((run_dir / STATE).read_text())
        return AddressPlan(state["tag"], IPv4Network(state["network"]))
    except (OSError, ValueError, KeyError):
        return None


def add_node_address(plan: AddressPlan, index: int) -> None:
    """Give the machine the address of node `index`, and let its pods reach themselves through a Service."""
    run(["ip", "addr", "add", f"{plan.node(index)}/{plan.nodes.prefixlen}", "dev", plan.node_bridge])
    run(["nft", "-f", "-"], stdin=hairpin_rule(plan, index))


def add_service_route(plan: AddressPlan, service_cidr: str) -> None:
    """Lead ClusterIPs to the nodes' bridge: one that no rule answers for ends there, not on the machine's uplink."""
    run(["ip", "route", "add", service_cidr, "dev", plan.node_bridge, "src", str(plan.control_plane)])


def firewall(plan: AddressPlan, comment: str = "") -> str:
    """The nft table of the cluster: its packets stay inside this machine, and none of others come in.

    `comment` tells others whose table it is.
    """
    net = plan.network
    said = f' comment "{comment}"' if comment else ""
    return f"""table inet {plan.tag} {{
  chain forward {{
    type filter hook forward priority 0;
    ip saddr {net} ip daddr != {net} counter drop{said}
    ip daddr {net} ip saddr != {net} drop
  }}
  chain input {{
    type filter hook input priority 0;
    iifname != {{ "lo", "{plan.tag}*" }} ip daddr {net} drop
  }}
  chain output {{
    type filter hook output priority 0;
    ip daddr {net} oifname != {{ "lo", "{plan.tag}*" }} drop
  }}
  chain hairpin {{
    type nat hook postrouting priority 90;
  }}
}}
"""


def hairpin_rule(plan: AddressPlan, index: int) -> str:
    """One kube-proxy serves all nodes and takes only the first one's pods as local; this does the rest.

    A pod that reaches a pod of its own node through a Service would otherwise get the answer from the pod's address
    and drop it.
    """
    pods = plan.pods_of(index)
    return f"add rule inet {plan.tag} hairpin ip saddr {pods} ip daddr {pods} ct status dnat masquerade\n"


def is_live(run_dir: Path) -> bool:
    """Whether what `prepare_network` made is still there; not so after a reboot, whatever the record says."""
    plan = load_network(run_dir)
    return plan is not None and f"table inet {plan.tag}" in output(["nft", "list", "tables"]).splitlines()


def remove_network(run_dir: Path) -> None:
    """Undo `prepare_network`: links, routes and rules, kube-proxy's tables, changed sysctls. Idempotent.

    A record whose network is gone (a reboot) undoes nothing: another cluster may have come since.
    """
    state_file = run_dir / STATE
    plan = load_network(run_dir)
    if plan and is_live(run_dir):
        for link in listed(["ip", "-j", "link", "show"]):
            if str(link["ifname"]).startswith(plan.tag):
                run_quietly(["ip", "link", "del", str(link["ifname"])])
        for table in slot.PROXY_TABLES:
            run_quietly(["nft", "delete", "table", *table.split()])
        for name, value in json.loads(state_file.read_text())["sysctls"].items():
            if read_sysctl(name) not in (None, value):
                _sysctl_path(name).write_text(value)
        # Last, since it says that the rest may still be there.
        run(["nft", "delete", "table", "inet", plan.tag])
    state_file.unlink(missing_ok=True)


def read_sysctl(name: str) -> str | None:
    """The value of a kernel setting such as `net.ipv4.ip_forward`; None where this kernel has none."""
    try:
        return _sysctl_path(name).read_text().strip()
    except OSError:
        return None


def drops_forwarded_packets() -> bool:
    """Whether another firewall (Docker's is the usual one) drops all forwarded packets, those of pods too."""
    rules = subprocess.run(
        ["nft", "-j", "list", "chains"], env=environment(), capture_output=True, text=True, check=False
    )
    with contextlib.suppress(ValueError, AttributeError):
        chains = [entry["chain"] for entry in json.loads(rules.stdout)["nftables"] if "chain" in entry]
        return any(chain.get("hook") == "forward" and chain.get("policy") == "drop" for chain in chains)
    return False


def _networks_in_use() -> list[str]:
    taken: list[str] = []
    for link in listed(["ip", "-j", "addr", "show"]):
        taken += [f"{address['local']}/{address['prefixlen']}" for address in link.get("addr_info", ())]
    for route in listed(["ip", "-j", "-4", "route", "show", "table", "all"]):
        taken += [str(route[key]) for key in ("dst", "gateway") if route.get(key) not in (None, "default")]
    with contextlib.suppress(OSError):
        words = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
        taken += [
            line[1] for line in words if line[:1] == ["nameserver"] and len(line) > 1 and ":" not in line[1]
        ]
    return taken


def _sysctl_path(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))
