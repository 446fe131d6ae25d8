"""Decides where the scheduler puts the pods: node pool, taints, spread, priority; it holds for all their containers."""

from typing import Any, Final

from tierwright.api.tier import InferenceTier
from tierwright.desired.labels import selector_labels
from tierwright.hardware.placement import Placement

_TOPOLOGY_KEYS: Final = {"Zone": "topology.kubernetes.io/zone", "Host": "kubernetes.io/hostname"}


def scheduling(tier: InferenceTier, placement: Placement) -> dict[str, Any]:
    """The fields of the pod spec that say where it runs; fields with nothing to say are absent."""
    pod = tier.spec.pod
    fields: dict[str, Any] = {
        "schedulerName": pod.scheduler_name,
        "priorityClassName": pod.priority_class_name,
        "nodeSelector": dict(placement.node_selector),
        "affinity": _affinity(placement),
        "tolerations": list(placement.tolerations),
        "topologySpreadConstraints": _spread(tier),
    }
    return {name: value for name, value in fields.items() if value}


def _affinity(placement: Placement) -> dict[str, Any]:
    if not placement.node_expressions:
        return {}
    terms = [{"matchExpressions": list(placement.node_expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _spread(tier: InferenceTier) -> list[dict[str, Any]]:
    choice = tier.spec.hardware.topology_spread or "Host"
    if choice == "None":
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": _TOPOLOGY_KEYS[choice],
            # Soft: a pool with room on one host only must still take the tier.
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector_labels(tier)},
            # Each revision spreads by itself; old pods that are about to go do not push new ones aside.
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]
