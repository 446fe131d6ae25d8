"""Serves external metrics to the cluster out of a Prometheus, as prometheus-adapter does with the rule of the samples.

The API server reaches it on loopback through an APIService whose Service has an external name.
"""

import json
import re
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.certificates import self_signed
from tests.support.kubernetes import Kubernetes
from tests.support.prometheus import Prometheus
from tests.support.waiting import eventually

GROUP = "external.metrics.k8s.io"
VERSION = "v1beta1"
_METRIC = re.compile(rf"/apis/{GROUP}/{VERSION}/namespaces/([^/]+)/([^/?]+)")


def adapted(rule: dict[str, Any], namespace: str, selector: str) -> str:
    """The PromQL that the rule of an adapter makes of one question."""
    series = re.match(r"[\w:]+", rule["seriesQuery"])
    assert series is not None
    matchers = [f'namespace="{namespace}"']
    matchers += ['{}="{}"'.format(*part.split("=")) for part in selector.split(",") if part]
    query: str = rule["metricsQuery"]
    return query.replace("<<.Series>>", series[0]).replace("<<.LabelMatchers>>", ",".join(matchers))


@contextmanager
def external_metrics(
    admin: Kubernetes, folder: Path, prometheus: Prometheus, rule: dict[str, Any]
) -> Iterator[None]:
    """The cluster has external metrics meanwhile, whose one metric the rule describes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            match = _METRIC.fullmatch(path)
            selector = urllib.parse.parse_qs(query).get("labelSelector", [""])[0]
            body = _list(match[1], match[2], selector) if match else _resources()
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
            """Be silent."""

    def _list(namespace: str, metric: str, selector: str) -> dict[str, Any]:
        found = prometheus.query(adapted(rule, namespace, selector))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "kind": "ExternalMetricValueList",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {},
            "items": [
                {"metricName": metric, "metricLabels": {}, "timestamp": now, "value": each["value"][1]}
                for each in found
            ],
        }

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder, "localhost"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "test-metrics-adapter", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {
                "name": "test-metrics-adapter",
                "namespace": "kube-system",
                "port": server.server_address[1],
            },
        },
    }
    try:
        admin.create(service)
        admin.create(api_service)

        def available() -> bool:
            found = admin.must_get("APIService", f"{VERSION}.{GROUP}")
            conditions = (found.get("status") or {}).get("conditions") or []
            assert conditions, found
            assert conditions[0]["status"] == "True", conditions
            return True

        eventually(available, "the API server reaches the adapter")
        yield
    finally:
        admin.delete("APIService", f"{VERSION}.{GROUP}")
        admin.delete("Service", "test-metrics-adapter", namespace="kube-system")
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def _resources() -> dict[str, Any]:
    """What discovery asks for."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{VERSION}",
        "resources": [
            {
                "name": "tierwright_tier_recommended_replicas",
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
        ],
    }
