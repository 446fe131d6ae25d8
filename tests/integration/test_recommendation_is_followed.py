"""The samples by which an HPA or KEDA follows the recommendation: the API server takes them whole, and a real HPA does as it is told."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from tests.integration.live import NAME, Object, apply_ready, tier
from tests.support import ticks
from tests.support.kubernetes import Kubernetes
from tests.support.metrics_adapter import adapted, external_metrics
from tests.support.prometheus import Prometheus, running_prometheus
from tests.support.waiting import eventually, holds_for
from tierwright.telemetry.autoscaling import AutoscalingMetrics

pytestmark = [pytest.mark.integration]

SAMPLES = Path(__file__).resolve().parents[2] / "docs/samples/recommendation"
RECOMMEND = {"mode": "Recommend", "objectives": {"timeToFirstToken": "500ms"}}
# The part of KEDA's CRD that the sample uses, after KEDA's own API reference.
SCALED_OBJECT: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["scaleTargetRef", "triggers"],
                                "properties": {
                                    "scaleTargetRef": {
                                        "type": "object",
                                        "required": ["name"],
                                        "properties": {
                                            "apiVersion": {"type": "string"},
                                            "kind": {"type": "string"},
                                            "name": {"type": "string"},
                                        },
                                    },
                                    "pollingInterval": {"type": "integer"},
                                    "minReplicaCount": {"type": "integer"},
                                    "maxReplicaCount": {"type": "integer"},
                                    "triggers": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["type", "metadata"],
                                            "properties": {
                                                "type": {"type": "string"},
                                                "metricType": {
                                                    "type": "string",
                                                    "enum": ["AverageValue", "Value", "Utilization"],
                                                },
                                                "metadata": {
                                                    "type": "object",
                                                    "additionalProperties": {"type": "string"},
                                                },
                                            },
                                        },
                                    },
                                    "advanced": {
                                        "type": "object",
                                        "properties": {
                                            "horizontalPodAutoscalerConfig": {
                                                "type": "object",
                                                "properties": {
                                                    "behavior": {
                                                        "type": "object",
                                                        "x-kubernetes-preserve-unknown-fields": True,
                                                    }
                                                },
                                            }
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def sample(name: str) -> Object:
    found: Object = yaml.safe_load((SAMPLES / name).read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Recommending:
    """A registry as an operator fills it, read by a real Prometheus."""

    metrics: AutoscalingMetrics
    prometheus: Prometheus

    def recommend(self, namespace: str, name: str, count: int) -> None:
        """Publish the recommendation, and wait until Prometheus has it."""
        recommended = replace(ticks.REPLICAS, recommended=count)
        self.metrics.record((namespace, name), time.time(), ticks.tick(time.time(), recommended))
        query = f'tierwright_tier_recommended_replicas{{namespace="{namespace}", name="{name}"}} == {count}'
        eventually(lambda: self.prometheus.query(query), f"Prometheus has {count}")


@pytest.fixture(scope="module")
def recommending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recommending]:
    folder = tmp_path_factory.mktemp("recommending")
    registry = CollectorRegistry()
    metrics = ticks.metrics(registry)
    page, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    targets = [{"targets": [f"127.0.0.1:{page.server_port}"]}]
    scrapes = [{"job_name": "operator", "honor_labels": True, "static_configs": targets}]
    try:
        with running_prometheus(folder, scrapes) as prometheus:
            yield Recommending(metrics, prometheus)
    finally:
        page.shutdown()
        page.server_close()
        thread.join(timeout=10)


def test_the_hpa_of_the_sample_is_taken_whole(k8s: Kubernetes) -> None:
    given = sample("hpa.yaml")
    kept = k8s.dry_run(given)["spec"]
    assert kept["metrics"] == given["spec"]["metrics"]
    assert kept["scaleTargetRef"] == given["spec"]["scaleTargetRef"]
    for way in ("scaleUp", "scaleDown"):
        assert given["spec"]["behavior"][way].items() <= kept["behavior"][way].items()


def test_the_scaled_object_of_the_sample_is_taken_whole(admin: Kubernetes, k8s: Kubernetes) -> None:
    admin.apply(SCALED_OBJECT)
    try:
        given = sample("keda.yaml")
        kept = eventually(lambda: _dry_run(k8s, given), "the kind is served")
        assert kept["spec"] == given["spec"]
    finally:
        admin.delete("CustomResourceDefinition", "scaledobjects.keda.sh")


def _dry_run(k8s: Kubernetes, manifest: Object) -> Object:
    from dev.cluster.api import ApiError

    try:
        return k8s.dry_run(manifest)
    except ApiError as error:
        if error.status == 404:
            raise LookupError("not served yet") from error
        raise


def test_both_samples_ask_for_the_recommendation_of_their_tier_alone(recommending: Recommending) -> None:
    recommending.recommend("serving", "llama-70b-fast", 7)
    recommending.recommend("serving", "llama-70b-standard", 3)
    recommending.recommend("other", "llama-70b-fast", 2)
    (trigger,) = sample("keda.yaml")["spec"]["triggers"]
    (rule,) = sample("prometheus-adapter-values.yaml")["rules"]["external"]
    selector = sample("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]
    by_adapter = adapted(rule, "serving", ",".join(f"{name}={value}" for name, value in selector.items()))
    for query in (trigger["metadata"]["query"], by_adapter):
        assert [each["value"][1] for each in recommending.prometheus.query(query)] == ["7"]
    absent = trigger["metadata"]["query"].replace("serving", "nowhere")
    assert recommending.prometheus.query(absent) == [], "no recommendation is nothing, not zero"


@pytest.mark.usefixtures("operator")
def test_a_real_hpa_follows_every_step_of_the_recommendation(
    admin: Kubernetes, k8s: Kubernetes, recommending: Recommending, tmp_path: Path
) -> None:
    (rule,) = sample("prometheus-adapter-values.yaml")["rules"]["external"]
    apply_ready(k8s, tier(scaling=RECOMMEND))
    hpa = sample("hpa.yaml")
    hpa["spec"]["scaleTargetRef"]["name"] = hpa["metadata"]["name"] = NAME
    hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["name"] = NAME

    def asked() -> Any:
        return k8s.must_get("InferenceTier", NAME)["spec"]["replicas"]

    def able() -> dict[str, str]:
        status = k8s.must_get("HorizontalPodAutoscaler", NAME)["status"]
        return {each["type"]: each["status"] for each in status.get("conditions", ())}

    with external_metrics(admin, tmp_path, recommending.prometheus, rule):
        recommending.recommend(k8s.namespace, NAME, 3)
        k8s.create(hpa)
        eventually(lambda: asked() == 3, "3 replicas are asked for", deadline_s=90)
        # 12 to 11 is a step of less than the tenth that an HPA tolerates by default.
        for count in (12, 11, 12, 2):
            recommending.recommend(k8s.namespace, NAME, count)
            eventually(lambda count=count: asked() == count, f"{count} are asked for", deadline_s=90)  # type: ignore[misc]
        assert able()["ScalingActive"] == "True"
        recommending.metrics.forget((k8s.namespace, NAME))
        eventually(lambda: able()["ScalingActive"] == "False", "the HPA misses the metric", deadline_s=90)
        holds_for(lambda: asked() == 2, "without a recommendation nothing changes", seconds=5)
