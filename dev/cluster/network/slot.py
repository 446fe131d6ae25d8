"""Decides whether this machine's one place for real nodes is free; if not, names who holds it and how to end that.

Two clusters with real nodes would take each other's Services, so a machine takes one. The nft tables tell that the
place is taken, and a comment in a cluster's own table tells its run folder, whichever cache that lies in.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev.cluster import paths
from dev.cluster.machine import processes
from dev.cluster.network.commands import NetworkError, output

PROXY_TABLES: Final = ("ip kube-proxy", "ip6 kube-proxy")
_OWN_TABLE = re.compile(r"inet (tw[0-9a-f]{6})")
_COMMENT = "tierwright cluster in "
# The kernel keeps 127 characters of a rule's comment.
_LONGEST_COMMENT = 127
_OTHER_KUBERNETES = ("kube-proxy", "k3s", "k3s-server", "rke2", "k0s", "microk8s")


@dataclass(frozen=True)
class Holder:
    """A cluster of dev.cluster that holds the place: its run folder, whether that is there, whether a process lives."""

    run_dir: Path
    exists: bool
    alive: bool


def require_free(own: Path | None = None) -> None:
    """Raise NetworkError, which says who holds the place and how to end it, unless real nodes may start here.

    What a dead cluster left in the run folder `own` does not count: its next start removes it.
    """
    if not (tables := tables_of_clusters(output(["nft", "list", "tables"]))):
        return
    holders = {table: found for table in tables if (found := _holder_of(table))}
    if any(holder.run_dir == own and not holder.alive for holder in holders.values()):
        return
    raise NetworkError(taken(tables, holders, _other_kubernetes(), paths.cache_dir()))


def tables_of_clusters(listed: str) -> list[str]:
    """Those of the tables (output of `nft list tables`) that belong to a cluster with real nodes or a kube-proxy."""
    tables = [line.removeprefix("table ").strip() for line in listed.splitlines()]
    return [table for table in tables if table in PROXY_TABLES or _OWN_TABLE.fullmatch(table)]


def comment(run_dir: Path) -> str:
    """What a cluster's nft table says of it; empty for a path that nft could not quote or the kernel not keep."""
    text = f"{_COMMENT}{run_dir}"
    return "" if '"' in text or len(text.encode()) > _LONGEST_COMMENT else text


def run_dir_in(rules: str) -> Path | None:
    """The run folder that `comment` put into a table (output of `nft -j list table ...`)."""
    for entry in json.loads(rules).get("nftables", []):
        text = str(entry.get("rule", {}).get("comment", ""))
        if text.startswith(_COMMENT):
            return Path(text.removeprefix(_COMMENT))
    return None


def taken(tables: Iterable[str], holders: Mapping[str, Holder], others: Iterable[str], cache: Path) -> str:
    """Who holds the place, in a few words with the command that ends it.

    Args:
        tables: nft tables that belong to real nodes or to a kube-proxy, such as `inet tw01beef`; not empty.
        holders: whose table it is, where that is known.
        others: names of running programs of a Kubernetes that dev.cluster did not start.
        cache: this user's cache folder; a cluster of another one is ended with that one's setting.

    Only a table whose cluster is gone is named as something to delete.
    """
    found = list(tables)
    listed = ", ".join(found)
    one = "this machine takes one cluster with real nodes"
    for holder in holders.values():
        if holder.exists or holder.alive:
            state = "runs already" if holder.alive else "has left its network behind"
            return f"{one}, and cluster {holder.run_dir.name} {state}. End it with: {_down(holder.run_dir, cache)}"
    if holders:
        return (
            f"a cluster with real nodes ({', '.join(str(each.run_dir) for each in holders.values())}) is gone, but its "
            f"firewall rules are left. Remove them with: {'; '.join(f'nft delete table {table}' for table in found)}"
        )
    if any(_OWN_TABLE.fullmatch(table) for table in found):
        return (
            f"{one}, and one that was started with another TIERWRIGHT_CACHE runs already (nft tables: {listed}). "
            "End it from there with: .venv/bin/python -m dev.cluster down --name NAME"
        )
    running = f" ({', '.join(names)})" if (names := sorted(set(others))) else ""
    return (
        f"{one}, and another Kubernetes{running} has its kube-proxy's rules on it (nft tables: {listed}). "
        "Stop that one and remove its rules, or use it: make demo CLUSTER=given"
    )


def _down(run_dir: Path, cache: Path) -> str:
    command = f".venv/bin/python -m dev.cluster down --name {run_dir.name}"
    of = run_dir.parent.parent
    return command if of == cache else f"TIERWRIGHT_CACHE={shlex.quote(str(of))} {command}"


def _holder_of(table: str) -> Holder | None:
    if not (match := _OWN_TABLE.fullmatch(table)):
        return None
    run_dir = run_dir_in(output(["nft", "-j", "list", "table", *table.split()])) or _in_this_cache(match[1])
    return Holder(run_dir, run_dir.exists(), bool(processes.strays(run_dir))) if run_dir else None


def _in_this_cache(tag: str) -> Path | None:
    for file in paths.clusters_dir().glob("*/network.json"):
        try:
            if json.loads(file.read_text())["tag"] == tag:
                return file.parent
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _other_kubernetes() -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = file.read_text().strip()
        except OSError:
            continue
        found += [name] if name in _OTHER_KUBERNETES else []
    return found
