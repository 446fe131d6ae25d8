"""Decides whether a Node, as the API shows it, is Ready, and whether pods may be scheduled to it already."""

from collections.abc import Mapping
from typing import Any

_NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether its kubelet (or kwok) says that it is Ready; False also for a Node without a status."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Whether it is Ready and the node controller has taken its taint away, which comes a moment later."""
    taints = node.get("spec", {}).get("taints", [])
    return is_ready(node) and not any(taint["key"] == _NOT_READY_TAINT for taint in taints)
