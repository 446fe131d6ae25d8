"""The operator's process reads a real Prometheus in place of pods: it decides from what an engine counts, and tells all of it.

Played pods have no network; a simulator stands for one of them under the pod's own `instance`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.machine.ports import free_port
from tests.integration.live import NAME, apply_ready, tier, wait_condition
from tests.support.engine_process import Engine, running_engine
from tests.support.kubernetes import Kubernetes, fresh_namespace
from tests.support.operator_process import (
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
)
from tests.support.prometheus import running_prometheus
from tests.support.waiting import eventually
from tierwright.telemetry import autoscaling_names as names

pytestmark = pytest.mark.integration

SCALING = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 3,
    "objectives": {"timeToFirstToken": "370ms", "timePerOutputToken": "33ms"},
    "cost": {"perReplicaHour": "3.6"},
}
# Known only once a replica that is asked for now could be ready.
LATER = {names.FORECAST_ERROR, names.FORECAST_ABSOLUTE_ERROR}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster without another operator."""
    if name := os.environ.get("TIERWRIGHT_TEST_CLUSTER"):
        yield clusters.attach(name)
        return
    with clusters.cluster(name=f"source-{os.getpid()}", nodes="kwok", use_given=False) as running:
        yield running


@pytest.fixture
def user(own: Cluster) -> Iterator[Kubernetes]:
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def told(
    operator: OperatorProcess, metric: str, namespace: str, **labels: str
) -> dict[tuple[str, ...], float]:
    """The values of a metric of the tier, by the values of its further labels."""
    found = {}
    for line in operator.get("/metrics").splitlines():
        match = re.fullmatch(rf"{metric}(?:_sum|_count)?\{{(.*)\}} (\S+)", line)
        if match is None:
            continue
        own_labels = dict(re.findall(r'(\w+)="([^"]*)"', match[1]))
        of_tier = (own_labels.pop("namespace", ""), own_labels.pop("name", "")) == (namespace, NAME)
        if of_tier and labels.items() <= own_labels.items():
            found[tuple(own_labels.values())] = float(match[2])
    return found


def pod_address(user: Kubernetes) -> str:
    (pod,) = user.list("Pod")
    address = (pod.get("status") or {}).get("podIP")
    assert address, pod
    return str(address)


def ask(engine: Engine) -> bool:
    """A few requests; always true, so that a wait can go on."""
    for _ in range(5):
        engine.ask(tokens=4)
    return True


def test_the_operator_decides_and_tells_from_what_prometheus_scraped(
    own: Cluster, user: Kubernetes, tmp_path: Path
) -> None:
    admin = Kubernetes(own.kubeconfig)
    install_crd(admin)
    kubeconfig, account = operator_kubeconfig(admin, own.helm, tmp_path)
    admin.close()
    port = free_port()
    settings: dict[str, Any] = {
        "prometheus_url": f"http://127.0.0.1:{port}",
        "prometheus_matchers": 'cluster="east"',
        "autoscale_seconds": "2",
        "namespaces": user.namespace,
        "resync_seconds": "2",
    }
    with running_operator(kubeconfig, account, tmp_path, **settings) as operator:
        apply_ready(user, tier(scaling=SCALING))

        def failures(cause: str) -> float:
            return sum(told(operator, names.SCRAPE_FAILURES, user.namespace, cause=cause).values())

        eventually(lambda: failures("Unreachable") > 0, "the server is not there yet")
        message = wait_condition(user, "ScalingActive", "False", "MetricsUnavailable")["message"]
        assert "the Prometheus server" in message
        instance = f"{pod_address(user)}:8000"
        # As the operator starts engines, so that objectives between two round numbers are told.
        (container,) = [
            each
            for each in user.must_get("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
            if "--custom-histogram-buckets" in each["args"]
        ]
        bounds = container["args"][container["args"].index("--custom-histogram-buckets") + 1]
        with running_engine(tmp_path, "--custom-histogram-buckets", bounds) as engine:
            job = {
                "job_name": "engines",
                "static_configs": [
                    {"targets": [engine.address], "labels": {"instance": instance, "cluster": "east"}}
                ],
            }
            with running_prometheus(tmp_path, [job], port=port):

                def judged() -> float:
                    ask(engine)
                    return sum(told(operator, names.JUDGED, user.namespace, objective="All").values())

                eventually(lambda: judged() > 20, "requests are judged", deadline_s=90)
                wait_condition(user, "ScalingActive", "True", deadline_s=90)
                known = {
                    value
                    for name, value in vars(names).items()
                    if name.isupper() and isinstance(value, str) and value.startswith("tierwright_")
                }

                def all_told() -> bool:
                    ask(engine)
                    missing = {name for name in known - LATER if not told(operator, name, user.namespace)}
                    assert missing == set()
                    return True

                eventually(all_told, "every metric of the tier is told", deadline_s=60)
        assert sum(told(operator, names.RECOMMENDED, user.namespace).values()) >= 1
        warned = user.must_get("InferenceTier", NAME)["status"].get("warnings", [])
        assert not [words for words in warned if "histogram" in words or "counts latencies" in words]
        user.delete("InferenceTier", NAME)

        def forgotten() -> bool:
            return not any(told(operator, name, user.namespace) for name in known)

        eventually(forgotten, "a tier that is gone leaves no series")
