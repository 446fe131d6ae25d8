"""Decides the Deployment around the pod template: replicas, selector, and how pods are replaced."""

from typing import Any

from tierwright.api.cache import CacheSpec
from tierwright.api.tier import InferenceTier, TierSpec
from tierwright.desired.budgets import Budgets
from tierwright.desired.labels import (
    ENGINE_IMAGE_ANNOTATION,
    ENGINE_VERSION_ANNOTATION,
    POD_SPEC_HASH_ANNOTATION,
    selector_labels,
)
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name
from tierwright.desired.pvc import binds_to_one_node
from tierwright.engines.engine import EnginePlan
from tierwright.hardware.refusal import invalid


def deployment(
    tier: InferenceTier, template: dict[str, Any], plan: EnginePlan, times: Budgets, pod_spec_hash: str
) -> dict[str, Any]:
    """The workload of the tier. Its annotations, not its template, remember which engine is in use.

    Raises:
        RefusedError: a rollout that could never replace a pod.
    """
    annotations = {POD_SPEC_HASH_ANNOTATION: pod_spec_hash, ENGINE_IMAGE_ANNOTATION: plan.image}
    if plan.version is not None:
        annotations[ENGINE_VERSION_ANNOTATION] = plan.version
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(tier, child_name(tier.metadata.name), annotations),
        "spec": {
            "replicas": start_replicas(tier.spec),
            "selector": {"matchLabels": selector_labels(tier)},
            "strategy": _strategy(tier.spec),
            "progressDeadlineSeconds": times.progress,
            "template": template,
        },
    }


def start_replicas(spec: TierSpec) -> int:
    """Replicas to start with: none when suspended, the user's number, in mode Auto within its bounds."""
    if spec.suspend:
        return 0
    scaling = spec.scaling
    if scaling.mode != "Auto":
        return spec.replicas
    fewest = 1 if scaling.min_replicas is None else scaling.min_replicas
    wanted = max(spec.replicas, fewest)
    return wanted if scaling.max_replicas is None else min(wanted, scaling.max_replicas)


def shares_single_node_volume(cache: CacheSpec) -> bool:
    """Whether all replicas share a volume that only one node can mount."""
    return binds_to_one_node(cache.weights) or binds_to_one_node(cache.compile)


def _strategy(spec: TierSpec) -> dict[str, Any]:
    rollout = spec.rollout
    default = "Recreate" if shares_single_node_volume(spec.cache) else "RollingUpdate"
    if (rollout.strategy or default) == "Recreate":
        return {"type": "Recreate"}
    surge = _count_or_share(rollout.max_surge or "0")
    unavailable = _count_or_share(rollout.max_unavailable or "1")
    if surge in (0, "0%") and unavailable in (0, "0%"):
        raise invalid(
            "spec.rollout.maxUnavailable",
            "maxSurge and maxUnavailable are both zero, so no pod could ever be replaced; raise one of them",
        )
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def _count_or_share(text: str) -> int | str:
    return text if text.endswith("%") else int(text)
