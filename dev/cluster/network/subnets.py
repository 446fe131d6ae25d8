"""Chooses addresses for real nodes: one private /16 that nothing on this machine uses, cut into nodes, pods, Services."""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

MAX_NODES = 99


class NoFreeSubnetError(RuntimeError):
    """Every private /16 overlaps a route or an address of this machine."""


@dataclass(frozen=True)
class AddressPlan:
    """How one /16 is cut: nodes in the first /24, pods from x.x.16.0, Services in the upper half.

    `tag` (8 characters) begins the names of links and is the name of the nft table and of the cgroup, so that
    everything made for a cluster can be found again by name.
    """

    tag: str
    network: IPv4Network

    @property
    def nodes(self) -> IPv4Network:
        """The /24 that the API server, the DNS server and the nodes have their addresses in."""
        return next(self.network.subnets(new_prefix=24))

    @property
    def control_plane(self) -> IPv4Address:
        """The address of the API server and of the DNS server."""
        return self.nodes[1]

    def node(self, index: int) -> IPv4Address:
        """The address of node `index`, counted from 1 over all pools."""
        return self.nodes[100 + self._checked(index)]

    def pods_of(self, index: int) -> IPv4Network:
        """The /24 of the pods of node `index`."""
        return IPv4Network((int(self.network[0]) + (16 + self._checked(index)) * 256, 24))

    @property
    def services(self) -> IPv4Network:
        """The range of ClusterIPs."""
        return list(self.network.subnets(new_prefix=17))[1]

    @property
    def node_bridge(self) -> str:
        """The bridge that carries the addresses of API server and nodes."""
        return f"{self.tag}n"

    def pod_bridge(self, index: int) -> str:
        """The bridge that the pods of node `index` hang on."""
        return f"{self.tag}p{self._checked(index)}"

    def _checked(self, index: int) -> int:
        if not 1 <= index <= MAX_NODES:
            raise ValueError(f"node number {index}: one machine takes 1 to {MAX_NODES} real nodes")
        return index


def tag_of(identity: str) -> str:
    """Eight characters that stand for a cluster in the names of links, tables and cgroups (15 is a link's limit)."""
    return "tw" + hashlib.sha256(identity.encode()).hexdigest()[:6]


def choose(identity: str, taken: Iterable[str]) -> AddressPlan:
    """Plan addresses for the cluster `identity` in the first /16 that overlaps none of `taken`.

    `taken`: networks in CIDR form that routes and addresses of this machine use; a default route counts for
    nothing. The search starts at a place that depends on `identity`, so that clusters seldom meet.
    Raises NoFreeSubnetError.
    """
    used = [net for net in (ipaddress.ip_network(text, strict=False) for text in taken) if net.prefixlen > 0]
    used_v4 = [net for net in used if isinstance(net, IPv4Network)]
    tag = tag_of(identity)
    for network in _candidates(int(tag.removeprefix("tw"), base=16)):
        if not any(network.overlaps(other) for other in used_v4):
            return AddressPlan(tag, network)
    raise NoFreeSubnetError(
        "no free /16 in 10.0.0.0/8 or 172.16.0.0/12 for the real nodes: routes of this machine (see `ip route`) "
        "cover them all"
    )


def _candidates(start: int) -> Iterator[IPv4Network]:
    tens = list(IPv4Network("10.0.0.0/8").subnets(new_prefix=16))
    for step in range(len(tens)):
        yield tens[(start + step) % len(tens)]
    yield from IPv4Network("172.16.0.0/12").subnets(new_prefix=16)
