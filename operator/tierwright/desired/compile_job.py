"""Decides the Job that fills the compile volume: one pod as the tier's pods are, which compiles, serves nothing and ends."""

from collections.abc import Mapping
from typing import Any, Final

from tierwright.api.tier import GROUP, InferenceTier
from tierwright.desired.budgets import Budgets
from tierwright.desired.canonical import canonical_json
from tierwright.desired.containers import ENGINE_CONTAINER
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name, short_hash
from tierwright.engines.engine import EnginePlan

TRIES: Final = 3
"""Compilers fail at random; a fourth failure alike would say nothing new."""
KEPT_SECONDS: Final = 600
"""How long a Job that failed can be looked into; as long, its pods hold on to the volume's claim."""
_GRACE_SECONDS: Final = 30
_HOPELESS: Final = (2, 64, 65, 66, 67)
"""Exit statuses of the worker that another try cannot change: its command line, its settings, the model's files."""
_OF_SERVERS: Final = ("ports", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle")
_OF_REPLICAS: Final = ("topologySpreadConstraints", "hostname", "subdomain")
_NEVER_READY: Final = {"conditionType": f"{GROUP}/serves"}
"""Nobody sets this condition, so no Service sends requests to the pod, whatever labels podTemplate gives it."""


def compile_key(template: Mapping[str, Any], plan: EnginePlan) -> str:
    """Changes with whatever the programs depend on: image, arguments, environment, cores, node pool, volume.

    Args:
        template: the pod template of the Deployment, the user's patch included.
        plan: what the engine is told when it compiles.
    """
    pod = template["spec"]
    engine = _engine(pod)
    requests = (engine.get("resources") or {}).get("requests") or {}
    depends_on = {
        "image": plan.image,
        "args": plan.compile_args,
        "command": engine.get("command"),
        "env": engine.get("env"),
        "devices": {name: count for name, count in requests.items() if name != "memory"},
        "nodes": [pod.get("nodeSelector"), pod.get("affinity")],
        "volumes": [volume.get("persistentVolumeClaim") for volume in pod["volumes"]],
    }
    return short_hash(canonical_json(depends_on))


def compile_job(
    tier: InferenceTier, template: Mapping[str, Any], plan: EnginePlan, times: Budgets
) -> dict[str, Any]:
    """The Job. Its template cannot be edited, so the name holds a hash of it: another template is another Job."""
    spec = {
        "backoffLimit": TRIES - 1,
        "activeDeadlineSeconds": times.compile,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "podFailurePolicy": {
            "rules": [
                # A node that goes is no failure of the compiler.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": ENGINE_CONTAINER,
                        "operator": "In",
                        "values": list(_HOPELESS),
                    },
                },
            ]
        },
        "template": {"metadata": _metadata(template["metadata"]), "spec": _pod(template["spec"], plan)},
    }
    name = child_name(tier.metadata.name, f"compile-{short_hash(canonical_json(spec))}")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(tier, name),
        "spec": spec,
    }


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Without the label by which Services, the Deployment and the budget of disruptions find the tier's pods."""
    labels = {name: value for name, value in metadata["labels"].items() if name != TIER_LABEL}
    return {**metadata, "labels": {**labels, "app.kubernetes.io/component": "compile"}}


def _pod(pod: Mapping[str, Any], plan: EnginePlan) -> dict[str, Any]:
    """The pod with its engine alone, told to compile: a container beside it would never end."""
    engine = {name: value for name, value in _engine(pod).items() if name not in _OF_SERVERS}
    kept = {name: value for name, value in pod.items() if name not in _OF_REPLICAS}
    return {
        **kept,
        "containers": [{**engine, "args": list(plan.compile_args)}],
        "readinessGates": [_NEVER_READY],
        # With OnFailure the last try would be deleted, and its last words with it.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
    }


def _engine(pod: Mapping[str, Any]) -> dict[str, Any]:
    (engine,) = [container for container in pod["containers"] if container["name"] == ENGINE_CONTAINER]
    return dict(engine)
