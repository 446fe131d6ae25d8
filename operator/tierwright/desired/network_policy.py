"""Decides the NetworkPolicy: the HTTP port is open to the pods of the cluster, every other port is closed."""

from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.labels import selector_labels
from tierwright.desired.metadata import child_metadata
from tierwright.desired.names import child_name
from tierwright.desired.probes import HTTP_PORT_NAME


def network_policy(tier: InferenceTier) -> dict[str, Any]:
    """The policy. Egress stays open: weights, proxies and mirrors are the user's.

    Policies add up: another policy of the user's may open more, such as the port to addresses outside.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(tier, child_name(tier.metadata.name)),
        "spec": {
            "podSelector": {"matchLabels": selector_labels(tier)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"namespaceSelector": {}}],
                    "ports": [{"protocol": "TCP", "port": HTTP_PORT_NAME}],
                }
            ],
        },
    }
