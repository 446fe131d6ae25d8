"""Builds the CustomResourceDefinition of InferenceTier from the models and the rules."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from tierwright.api.rules import RULES
from tierwright.api.rules.rule import AnyRule, Rule
from tierwright.api.schema import JsonSchema, structural_schema
from tierwright.api.status import TierStatus
from tierwright.api.tier import GROUP, KIND, PLURAL, VERSION, InferenceTier, TierSpec

CRD_NAME: Final = f"{PLURAL}.{GROUP}"

PRINTER_COLUMNS: Final[tuple[Mapping[str, object], ...]] = (
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.name", "description": "Served name."},
    {"name": "Speed", "type": "string", "jsonPath": ".spec.speed", "description": "What requests ask for."},
    {
        "name": "Accelerator",
        "type": "string",
        "jsonPath": ".spec.hardware.accelerator",
        "description": "Kind of hardware.",
    },
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": ".status.ready",
        "description": "Ready replicas over those wanted.",
    },
    {
        "name": "Reason",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].reason',
        "description": "Why the tier is ready or not.",
    },
    {
        "name": "TTFT p95",
        "type": "string",
        "jsonPath": ".status.latency.timeToFirstTokenP95",
        "description": "95th percentile of the time to the first token.",
    },
    {
        "name": "TPOT p95",
        "type": "string",
        "jsonPath": ".status.latency.timePerOutputTokenP95",
        "description": "95th percentile of the time per output token.",
    },
    {
        "name": "Attained",
        "type": "string",
        "jsonPath": ".status.latency.attained",
        "description": "Share of requests that met all objectives.",
    },
    {
        "name": "Node Pool",
        "type": "string",
        "priority": 1,
        "jsonPath": ".status.nodePool",
        "description": "Where the tier is pinned.",
    },
    {
        "name": "Engine",
        "type": "string",
        "priority": 1,
        "jsonPath": ".spec.engine.type",
        "description": "Engine that serves the model.",
    },
    {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Since creation.",
    },
)


def custom_resource_definition() -> dict[str, Any]:
    """The whole CRD object, ready to be written as YAML."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": CRD_NAME,
            "labels": {"app.kubernetes.io/name": "tierwright", "app.kubernetes.io/part-of": "tierwright"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["itier"],
                "categories": ["tierwright"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": object_schema()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
                }
            ],
        },
    }


def crd_yaml() -> str:
    """The CRD as a YAML document, the text of the generated file."""
    header = "# Generated from operator/tierwright/api by `make generate`; do not edit.\n"
    return header + yaml.safe_dump(
        custom_resource_definition(), sort_keys=False, width=110, allow_unicode=True
    )


def object_schema() -> JsonSchema:
    """The schema of one InferenceTier, rules included."""
    spec = structural_schema(TierSpec)
    for rule in RULES:
        _node(spec, rule.at).setdefault("x-kubernetes-validations", []).append(_validation(rule))
    return {
        "description": InferenceTier.__doc__,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural_schema(TierStatus),
        },
    }


def _node(spec: JsonSchema, at: str) -> JsonSchema:
    node = spec
    for step in at.split(".")[1:]:
        node = node["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            node = node["items"]
    return node


def _validation(rule: AnyRule) -> dict[str, str]:
    figures = rule.figures if isinstance(rule, Rule) else None
    with_figures = (
        {}
        if figures is None
        else {
            "messageExpression": f"'{rule.message} ({figures.template})'.format([{', '.join(figures.cel)}])"
        }
    )
    return {
        "rule": rule.cel,
        "message": rule.message,
        **with_figures,
        "fieldPath": f".{rule.field}",
        "reason": rule.reason,
    }
