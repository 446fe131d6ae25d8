"""Decides the engine's container: image, arguments, ports, probes, resources, mounts and what it may do."""

from typing import Any, Final

from tierwright.api.tier import TierSpec
from tierwright.desired.budgets import PRE_STOP_SECONDS, Budgets
from tierwright.desired.probes import HTTP_PORT_NAME, probes
from tierwright.engines.engine import HTTP_PORT, EnginePlan
from tierwright.hardware.placement import Placement

ENGINE_CONTAINER: Final = "engine"


def engine_container(
    plan: EnginePlan,
    times: Budgets,
    env: list[dict[str, Any]],
    resources: dict[str, Any],
    mounts: list[dict[str, Any]],
) -> dict[str, Any]:
    """The container that serves."""
    return {
        "name": ENGINE_CONTAINER,
        "image": plan.image,
        "args": list(plan.args),
        "env": env,
        "ports": [{"name": HTTP_PORT_NAME, "containerPort": HTTP_PORT, "protocol": "TCP"}],
        **probes(plan.health_path, times),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        **({"resources": resources} if resources else {}),
        "volumeMounts": mounts,
        # The last lines of the log tell why an engine stopped; status shows them.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
    }


def host_resources(spec: TierSpec) -> dict[str, Any]:
    """Requests and limits of host resources; CPU is never limited, since a throttled engine misses its latency."""
    wanted = spec.hardware.resources
    bounded = {"memory": wanted.memory, "ephemeral-storage": wanted.ephemeral_storage}
    limits = {name: quantity for name, quantity in bounded.items() if quantity is not None}
    requests = {**({"cpu": wanted.cpu} if wanted.cpu is not None else {}), **limits}
    return _without_empty({"requests": requests, "limits": limits})


def with_devices(resources: dict[str, Any], placement: Placement) -> dict[str, Any]:
    """The resources with the pod's own share of devices; requests and limits must be equal for them."""
    devices = {name: str(count) for name, count in placement.devices.items()}
    return _without_empty(
        {
            "requests": {**resources.get("requests", {}), **devices},
            "limits": {**resources.get("limits", {}), **devices},
        }
    )


def container_security() -> dict[str, Any]:
    """What the restricted Pod Security Standard asks of a container, and a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _without_empty(resources: dict[str, Any]) -> dict[str, Any]:
    return {name: quantities for name, quantities in resources.items() if quantities}
