"""Helm on a real API server: monitors and rules come with the kinds that the cluster knows, and are such objects."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dev import chart
from dev.cluster.api import ApiError
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
SELECTOR: Schema = {"type": "object", "properties": {"matchLabels": TEXTS}}


def of(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


RELABELINGS = many(of(sourceLabels=many(TEXT), targetLabel=TEXT))
ENDPOINTS = many(of(port=TEXT, interval=TEXT, honorLabels={"type": "boolean"}, relabelings=RELABELINGS))
NAMESPACES = of(any={"type": "boolean"}, matchNames=many(TEXT))
RULE = of(alert=TEXT, record=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": TEXT})
# The parts of the Prometheus Operator's CRDs that the chart uses, after its API reference.
KINDS = {
    "ServiceMonitor": of(selector=SELECTOR, endpoints=ENDPOINTS),
    "PodMonitor": of(selector=SELECTOR, namespaceSelector=NAMESPACES, podMetricsEndpoints=ENDPOINTS),
    "PrometheusRule": of(groups=many(of(name=TEXT, interval=TEXT, rules=many(RULE)))),
}
SWITCHES = [
    word
    for name in ("serviceMonitor", "podMonitor", "rules", "dashboard")
    for word in ("--set", f"monitoring.{name}.enabled=true")
]


GROUP = "monitoring.coreos.com"


@contextmanager
def served(admin: Kubernetes, *kinds: str, group: str = GROUP, version: str = "v1") -> Iterator[None]:
    """These kinds of the Prometheus Operator are served; no operator of theirs runs."""
    names = []
    for kind in kinds:
        plural = f"{kind.lower()}s"
        names.append(f"{plural}.{group}")
        admin.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": names[-1]},
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural},
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": of(spec=KINDS[kind])},
                        }
                    ],
                },
            }
        )
    try:
        eventually(lambda: _discovered(admin, group, version) >= set(kinds), f"{kinds} of {group}/{version}")
        yield
    finally:
        admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
        for name in names:
            admin.delete("CustomResourceDefinition", name)
        eventually(lambda: not _discovered(admin, group, version), f"no {group}/{version}")


def _discovered(admin: Kubernetes, group: str, version: str) -> set[str]:
    """The kinds that the API server says it serves in this group and version."""
    try:
        found = admin._api.request("GET", f"/apis/{group}/{version}")
    except ApiError as error:
        if error.status == 404:
            return set()
        raise
    return {each["kind"] for each in found["resources"]}


@pytest.fixture
def prometheus_operator(admin: Kubernetes) -> Iterator[None]:
    """All kinds of the Prometheus Operator are served."""
    with served(admin, *KINDS):
        yield


def installed(cluster: "Cluster", namespace: str) -> tuple[set[str], list[dict[str, Any]], str]:
    """Kinds, objects and notes of an install with every switch on, that the server only looks at."""
    done = subprocess.run(
        [
            cluster.helm,
            "install",
            "monitored",
            str(chart.CHART),
            "--namespace",
            namespace,
            "--dry-run=server",
            "--set",
            "crds.install=false",
            *SWITCHES,
        ],
        env=cluster.environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    manifest, _, notes = done.stdout.partition("\nNOTES:")
    objects = [each for each in yaml.safe_load_all(manifest.partition("MANIFEST:")[2]) if each]
    return {each["kind"] for each in objects}, objects, notes


def test_a_cluster_without_the_kinds_gets_none_and_is_told(cluster: "Cluster", k8s: Kubernetes) -> None:
    kinds, _, notes = installed(cluster, k8s.namespace)
    assert not kinds & KINDS.keys()
    assert "ConfigMap" in kinds
    assert "Left out for now" in notes


@pytest.mark.parametrize(
    ("group", "version"), [("monitoring.renamed.example", "v1"), (GROUP, "v2")], ids=["group", "version"]
)
def test_kinds_that_moved_to_another_group_or_version_are_left_out_and_told(
    cluster: "Cluster", admin: Kubernetes, k8s: Kubernetes, group: str, version: str
) -> None:
    """kserve#5607: a dependency renamed its API group, and what was written for the old one failed."""
    with served(admin, *KINDS, group=group, version=version):
        kinds, _, notes = installed(cluster, k8s.namespace)
    assert not kinds & KINDS.keys()
    assert {"Deployment", "ConfigMap"} <= kinds
    assert "though asked for: PodMonitor, PrometheusRule, ServiceMonitor." in notes


def test_a_cluster_that_serves_some_of_the_kinds_gets_those_and_is_told_of_the_others(
    cluster: "Cluster", admin: Kubernetes, k8s: Kubernetes
) -> None:
    with served(admin, "PodMonitor"):
        kinds, _, notes = installed(cluster, k8s.namespace)
    assert kinds & KINDS.keys() == {"PodMonitor"}
    assert "though asked for: PrometheusRule, ServiceMonitor." in notes


@pytest.mark.usefixtures("prometheus_operator")
def test_a_cluster_with_the_kinds_gets_objects_that_it_takes_whole(
    cluster: "Cluster", k8s: Kubernetes
) -> None:
    def rendered() -> list[dict[str, Any]]:
        kinds, objects, notes = installed(cluster, k8s.namespace)
        assert kinds >= KINDS.keys()
        assert "Left out for now" not in notes
        return objects

    for each in eventually(rendered, "helm sees the kinds"):
        if each["kind"] in KINDS:
            assert k8s.dry_run(each)["spec"] == each["spec"]
