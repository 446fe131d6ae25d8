"""Decides the two Services: one address for the tier, and a headless one that names each pod."""

from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.labels import selector_labels
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import HEADLESS_SUFFIX, child_name
from tierwright.desired.probes import HTTP_PORT_NAME
from tierwright.engines.engine import HTTP_PORT


def service(tier: InferenceTier) -> dict[str, Any]:
    """The Service that clients and the gateway call; it holds ready pods only."""
    return _service(tier, child_name(tier.metadata.name), {"type": "ClusterIP"})


def headless_service(tier: InferenceTier) -> dict[str, Any]:
    """The Service whose name resolves to the addresses of the ready pods, for those that choose a pod themselves."""
    name = child_name(tier.metadata.name, HEADLESS_SUFFIX)
    return _service(tier, name, {"type": "ClusterIP", "clusterIP": "None"})


def endpoint(tier: InferenceTier) -> str:
    """Host and port of the tier inside the cluster."""
    return f"{child_name(tier.metadata.name)}.{tier.metadata.namespace}.svc:{HTTP_PORT}"


def _service(tier: InferenceTier, name: str, kind_of_service: dict[str, Any]) -> dict[str, Any]:
    port = {
        "name": HTTP_PORT_NAME,
        "port": HTTP_PORT,
        "targetPort": HTTP_PORT_NAME,
        "protocol": "TCP",
        "appProtocol": "http",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(tier, name),
        "spec": {**kind_of_service, "selector": selector_labels(tier), "ports": [port]},
    }
