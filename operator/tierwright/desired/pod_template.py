"""Assembles the pod template: containers, volumes, scheduling and identity, with the user's patch as the last word."""

from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.budgets import Budgets
from tierwright.desired.containers import container_security, engine_container, host_resources, with_devices
from tierwright.desired.environment import fetch_env, server_env
from tierwright.desired.fetch import fetch_containers, token_env
from tierwright.desired.labels import child_annotations, child_labels
from tierwright.desired.patch_guard import patched_pod_template
from tierwright.desired.scheduling import scheduling
from tierwright.desired.service_account import service_account_name
from tierwright.desired.volumes import fetch_scratch_mounts, scratch_volumes, server_scratch_mounts
from tierwright.desired.weights import WeightsPlan
from tierwright.engines.engine import EnginePlan
from tierwright.hardware.placement import Placement


def pod_template(
    tier: InferenceTier, placement: Placement, weights: WeightsPlan, plan: EnginePlan, times: Budgets
) -> dict[str, Any]:
    """The template of the tier's pods.

    Raises:
        RefusedError: the user's patch touches what is not its to change.
    """
    template = {
        "metadata": {"labels": child_labels(tier), "annotations": child_annotations(tier)},
        "spec": _pod_spec(tier, placement, weights, plan, times),
    }
    if tier.spec.pod_template is None:
        return template
    return patched_pod_template(template, tier.spec.pod_template, placement.devices)


def _pod_spec(
    tier: InferenceTier, placement: Placement, weights: WeightsPlan, plan: EnginePlan, times: Budgets
) -> dict[str, Any]:
    spec = tier.spec
    resources = host_resources(spec)
    server = engine_container(
        plan,
        times,
        server_env({**plan.env, **placement.env}, spec.engine.env),
        with_devices(resources, placement),
        [*weights.mounts, *server_scratch_mounts()],
    )
    pod: dict[str, Any] = {
        "containers": [server],
        "volumes": [*weights.volumes, *scratch_volumes(tier)],
        "terminationGracePeriodSeconds": times.grace,
        "securityContext": _pod_security(plan),
        "serviceAccountName": service_account_name(tier),
        # The engine asks nothing of the API server, and a Service called vllm would set VLLM_PORT.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **scheduling(tier, placement),
    }
    fetches = _fetches(tier, weights, plan, resources)
    if fetches:
        pod["initContainers"] = fetches
    if spec.pod.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret.name} for secret in spec.pod.image_pull_secrets]
    return pod


def _fetches(
    tier: InferenceTier, weights: WeightsPlan, plan: EnginePlan, resources: dict[str, Any]
) -> list[dict[str, Any]]:
    containers = fetch_containers(
        tier.spec.engine.type,
        weights,
        plan.image,
        fetch_env(token_env(tier), tier.spec.engine.env),
        resources,
        fetch_scratch_mounts(),
    )
    return [{**container, "securityContext": container_security()} for container in containers]


def _pod_security(plan: EnginePlan) -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": plan.uid,
        "runAsGroup": plan.gid,
        "fsGroup": plan.uid,
        # Else every start would change the owner of every file on a large weights volume.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
