"""Decides the Deployment around the pod template: replicas, selector, and how pods are replaced."""

from typing import Any

from tierwright.api.rules.cache import shared_on_one_node
from tierwright.api.tier import InferenceTier, TierSpec
from tierwright.desired.budgets import Budgets
from tierwright.desired.labels import (
    COMPILE_CACHE_ANNOTATION,
    ENGINE_IMAGE_ANNOTATION,
    ENGINE_VERSION_ANNOTATION,
    POD_SPEC_HASH_ANNOTATION,
    selector_labels,
)
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name
from tierwright.engines.engine import EnginePlan


def deployment(
    tier: InferenceTier,
    template: dict[str, Any],
    plan: EnginePlan,
    times: Budgets,
    pod_spec_hash: str,
    compile_record: str | None,
) -> dict[str, Any]:
    """The workload of the tier. Its annotations, not its template, remember which engine is in use and what is compiled."""
    annotations = {POD_SPEC_HASH_ANNOTATION: pod_spec_hash, ENGINE_IMAGE_ANNOTATION: plan.image}
    if plan.version is not None:
        annotations[ENGINE_VERSION_ANNOTATION] = plan.version
    if compile_record is not None:
        annotations[COMPILE_CACHE_ANNOTATION] = compile_record
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(tier, child_name(tier.metadata.name), annotations),
        "spec": {
            "replicas": _start_replicas(tier.spec),
            # Said, so that a Deployment that was paused by hand goes on; to pause a tier there is an annotation.
            "paused": False,
            "selector": {"matchLabels": selector_labels(tier)},
            "strategy": _strategy(tier.spec),
            "progressDeadlineSeconds": times.progress,
            "template": template,
        },
    }


def _start_replicas(spec: TierSpec) -> int:
    """Replicas to start with: none when suspended, the user's number, in mode Auto within its bounds."""
    if spec.suspend:
        return 0
    return spec.scaling.bounded_in_auto(spec.replicas) if spec.scaling.mode == "Auto" else spec.replicas


def _strategy(spec: TierSpec) -> dict[str, Any]:
    rollout = spec.rollout
    default = "Recreate" if shared_on_one_node(spec) else "RollingUpdate"
    if (rollout.strategy or default) == "Recreate":
        return {"type": "Recreate"}
    surge = _count_or_share(rollout.max_surge or "0")
    unavailable = _count_or_share(rollout.max_unavailable or "1")
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def _count_or_share(text: str) -> int | str:
    return text if text.endswith("%") else int(text)
