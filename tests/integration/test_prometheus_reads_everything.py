"""A real Prometheus reads the operator's registry and an engine: every query of the dashboard and every rule has data."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from dev import chart
from tests.support import ticks
from tests.support.engine_process import Engine, running_engine
from tests.support.prometheus import Prometheus, programs, running_prometheus
from tests.support.waiting import eventually
from tierwright.telemetry.autoscaling import AutoscalingMetrics
from tierwright.telemetry.metrics import Metrics

pytestmark = pytest.mark.integration

RULES = (chart.CHART / "files" / "prometheus-rules.yaml").read_text(encoding="utf-8")
DASHBOARD = json.loads((chart.CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
KEY = ("serving", "fast")
_METRIC = re.compile(r"\b(?:tierwright_|tier:tierwright_|vllm:)[a-z_0-9:]+")


@dataclass(frozen=True)
class Operator:
    """A registry as a running operator fills it, and the engine whose figures stand beside it."""

    metrics: Metrics
    autoscaling: AutoscalingMetrics
    engine: Engine

    def tick(self) -> None:
        """What a moment of a busy operator does."""
        now = time.time()
        decision = replace(ticks.DECISION, horizon=2.0)  # soon enough for its error to be known
        self.autoscaling.record(KEY, now, ticks.tick(now, decision=decision))
        self.metrics.reconciles.labels("settled").inc()
        self.metrics.errors.labels("Unschedulable").inc()
        self.metrics.drift.labels("Deployment").inc()
        self.metrics.api_requests.labels("get", "Pod", "200").inc()
        self.engine.ask()


@dataclass(frozen=True)
class Scene:
    operator: Operator
    prometheus: Prometheus

    def has_data(self, expression: str) -> None:
        """Wait until the query has data, while the operator goes on working."""

        def look() -> bool:
            self.operator.tick()
            found = self.prometheus.query(expression)
            return any(each["value"][1] not in ("NaN", "+Inf", "-Inf") for each in found)

        eventually(look, f"data for: {expression}", deadline_s=40)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("prometheus")
    registry = CollectorRegistry()
    metrics = Metrics(registry, "0.0.0")
    autoscaling = ticks.metrics(registry)
    metrics.set_conditions(KEY, [("Ready", "True"), ("Stalled", "False")])
    metrics.resync_time.set(time.time())
    page, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    scrapes = [
        {
            "job_name": "operator",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{page.server_port}"]}],
        }
    ]
    try:
        with running_engine(folder) as engine:
            labels = {"namespace": KEY[0], "tier": KEY[1], "pod": "fast-0"}
            scrapes.append(
                {"job_name": "engines", "static_configs": [{"targets": [engine.address], "labels": labels}]}
            )
            rules = RULES.replace("interval: 30s", "interval: 1s")
            with running_prometheus(folder, scrapes, rules=rules) as prometheus:
                yield Scene(Operator(metrics, autoscaling, engine), prometheus)
    finally:
        page.shutdown()
        page.server_close()
        thread.join(timeout=10)


def queries() -> list[Any]:
    return [
        pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}".replace(" ", "_"))
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


def records() -> list[Any]:
    return [
        pytest.param(
            rule["record"],
            rule.get("labels", {}),
            id=rule["record"] + "".join(rule.get("labels", {}).values()),
        )
        for group in yaml.safe_load(RULES)["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]


@pytest.mark.parametrize("expression", queries())
def test_every_query_of_the_dashboard_has_data(scene: Scene, expression: str) -> None:
    filled = expression.replace("$__rate_interval", "30s").replace("$namespace", ".*").replace("$tier", ".*")
    assert "$" not in filled
    scene.has_data(filled)


@pytest.mark.parametrize(("record", "labels"), records())
def test_every_recording_rule_has_data(scene: Scene, record: str, labels: dict[str, str]) -> None:
    selector = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    scene.has_data(f"{record}{{{selector}}}")


def test_every_series_that_an_alert_reads_is_there_and_no_rule_fails(scene: Scene) -> None:
    alerts = [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"] if "alert" in rule]
    read = {name for alert in alerts for name in _METRIC.findall(alert["expr"])}
    assert len(read) > len(alerts) // 2
    for name in sorted(read):
        scene.has_data(name)
    groups = scene.prometheus.ask("rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    assert len([rule for group in groups for rule in group["rules"]]) == RULES.count("expr:")


@pytest.mark.parametrize("variable", ["namespace", "tier"])
def test_the_dashboards_variables_find_the_tier(scene: Scene, variable: str) -> None:
    (definition,) = [each for each in DASHBOARD["templating"]["list"] if each["name"] == variable]
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition["query"]["query"]).groups()  # type: ignore[union-attr]
    scene.has_data(selector.replace("$namespace", ".*"))
    found = {each["metric"][label] for each in scene.prometheus.query(selector.replace("$namespace", ".*"))}
    assert found == {KEY[0] if variable == "namespace" else KEY[1]}


def test_a_wrong_name_in_a_query_would_be_noticed(scene: Scene) -> None:
    assert scene.prometheus.query("tierwright_tier_no_such_thing") == []


def test_names_follow_the_conventions_of_prometheus(scene: Scene) -> None:
    scene.operator.tick()
    done = subprocess.run(
        [programs().tool, "check", "metrics"],
        input=scene.operator.metrics.render(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = [
        line
        for line in (done.stdout + done.stderr).decode().splitlines()
        if "_created" not in line and line.startswith("tierwright_")
    ]
    assert said == []
