"""No object that is installed stands in the way of others' requests: no webhook, no API server, no conversion.

kubeflow#4511: a webhook that mutates pods was down, and no pod started, its own included. opendatahub-operator#3808: a
webhook on DELETE failed closed after its service was gone, and its namespace could not be deleted. The same holds for a
CRD whose conversion webhook is down (no tier can be read) and for an APIService without a server (no namespace ends).
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dev import chart
from tests.unit.test_chart import INSTALLS
from tests.unit.test_chart_monitoring import ALL, PROMETHEUS_OPERATOR
from tierwright.control.kinds import CHILDREN

ROOT: Final = Path(__file__).resolve().parents[2]
MONITORED: Final = "with monitors, rules and dashboard"
HARMLESS: Final = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "Deployment",
    "Namespace",
    "PodMonitor",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
}
"""Kinds of which the API server asks nothing when it answers others. A new kind has to be looked at before it is added."""

Objects = list[dict[str, Any]]


def check(objects: Objects) -> None:
    """Every object is of a harmless kind, and no CRD is converted by a webhook."""
    assert objects
    assert {each["kind"] for each in objects} <= HARMLESS
    for each in objects:
        if each["kind"] == "CustomResourceDefinition":
            assert each["spec"].get("conversion", {}).get("strategy", "None") == "None"


@pytest.mark.parametrize("install", [*INSTALLS, MONITORED])
def test_no_install_of_the_chart_brings_a_webhook(install: str) -> None:
    values = INSTALLS.get(install, ALL)
    check(chart.objects(chart.render(values=values, api_versions=PROMETHEUS_OPERATOR)))


@pytest.mark.parametrize("file", ["crds/tierwright.dev_inferencetiers.yaml", "manifests/install.yaml"])
def test_no_manifest_brings_a_webhook(file: str) -> None:
    check(list(yaml.safe_load_all((ROOT / file).read_text(encoding="utf-8"))))


def test_no_template_of_the_chart_holds_one_behind_a_value() -> None:
    for file in sorted((chart.CHART / "templates").iterdir()):
        text = file.read_text(encoding="utf-8").lower()
        for word in ("webhook", "apiservice", "admissionregistration", "finalizers:"):
            assert word not in text, f"{file.name} holds {word}"


def test_no_child_of_a_tier_is_one() -> None:
    groups = {kind.group for kind in CHILDREN}
    assert not groups & {"admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io"}


@pytest.mark.parametrize(
    "foreign",
    [
        {"kind": "MutatingWebhookConfiguration"},
        {"kind": "APIService"},
        {"kind": "CustomResourceDefinition", "spec": {"conversion": {"strategy": "Webhook"}}},
    ],
)
def test_one_would_be_noticed(foreign: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check([foreign])
