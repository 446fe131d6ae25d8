"""The chart's monitors, rules and dashboard: each by its own switch, none of a kind that is not served, all in place."""

import json
import re
from typing import Any

import pytest
import yaml

from dev import chart
from dev.chart import HelmError
from tests.support.tier_bundles import bundle_of, manifest
from tierwright.api.parse import parse_tier

PROMETHEUS_OPERATOR = tuple(
    f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")
)
ALL = tuple(
    f"monitoring.{name}.enabled=true" for name in ("serviceMonitor", "podMonitor", "rules", "dashboard")
)
RULES = chart.CHART / "files" / "prometheus-rules.yaml"
DASHBOARD = chart.CHART / "files" / "dashboard.json"


def rendered(*values: str, known: bool = True) -> dict[str, dict[str, Any]]:
    """The objects that monitoring adds, by kind."""
    versions = PROMETHEUS_OPERATOR if known else ()
    objects = chart.objects(chart.render(values=values, api_versions=versions))
    kinds = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap")
    return {each["kind"]: each for each in objects if each["kind"] in kinds}


def test_nothing_is_added_unasked() -> None:
    assert rendered() == {}


def test_kinds_that_the_cluster_does_not_know_are_left_out_and_the_notes_say_so() -> None:
    assert set(rendered(*ALL, known=False)) == {"ConfigMap"}
    notes = chart.render(values=ALL, notes=True)
    assert "Left out for now, though asked for: PodMonitor, PrometheusRule, ServiceMonitor." in notes
    assert "Left out for now" not in chart.render(notes=True)


def test_a_cluster_that_serves_one_of_the_kinds_gets_that_one() -> None:
    text = chart.render(values=ALL, api_versions=("monitoring.coreos.com/v1/PodMonitor",))
    assert {each["kind"] for each in chart.objects(text)} & {
        "ServiceMonitor",
        "PrometheusRule",
        "PodMonitor",
    } == {"PodMonitor"}


def test_each_has_its_own_switch() -> None:
    assert set(rendered(*ALL)) == {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"}
    assert set(rendered("monitoring.podMonitor.enabled=true")) == {"PodMonitor"}


def test_the_rules_are_those_of_the_plain_file() -> None:
    rule = rendered(*ALL)["PrometheusRule"]
    assert rule["spec"]["groups"] == yaml.safe_load(RULES.read_text())["groups"]


def test_runbook_links_lead_to_where_the_docs_are_kept() -> None:
    text = yaml.safe_dump(
        rendered("monitoring.rules.enabled=true", 'monitoring.rules.runbookBase="https://docs.example/t/"')[
            "PrometheusRule"
        ],
        width=1000,
    )
    links = re.findall(r"runbook_url: (\S+)", text)
    assert links
    assert all(link.startswith("https://docs.example/t/how-to/monitor-the-operator.md#") for link in links)


def test_labels_by_which_a_prometheus_selects_are_added() -> None:
    for kind, name in (
        ("ServiceMonitor", "serviceMonitor"),
        ("PodMonitor", "podMonitor"),
        ("PrometheusRule", "rules"),
    ):
        labels = rendered(f'monitoring.{name}={{"enabled":true,"labels":{{"release":"stack"}}}}')[kind][
            "metadata"
        ]["labels"]
        assert labels["release"] == "stack"
        assert labels["app.kubernetes.io/part-of"] == "tierwright"


def test_the_dashboard_lies_where_grafanas_sidecar_looks() -> None:
    config = rendered(*ALL)["ConfigMap"]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["tierwright.json"]) == json.loads(DASHBOARD.read_text())


def test_the_service_monitor_selects_the_service_and_its_port() -> None:
    objects = chart.objects(chart.render(values=ALL, api_versions=PROMETHEUS_OPERATOR))
    (service,) = [each for each in objects if each["kind"] == "Service"]
    monitor = rendered(*ALL)["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert monitor["endpoints"][0]["honorLabels"] is True


def test_the_service_monitor_without_a_service_is_refused() -> None:
    with pytest.raises(HelmError, match=r"set metrics.service.enabled to true"):
        rendered("monitoring.serviceMonitor.enabled=true", "metrics.service.enabled=false")


def test_the_pod_monitor_selects_engines_pods_and_their_port() -> None:
    tier = parse_tier(
        yaml.safe_load((chart.CHART.parents[1] / "docs/samples/cpu-vllm.yaml").read_text()), strict=True
    ).tier
    assert tier is not None
    pod = manifest(bundle_of(tier), "Deployment")["spec"]["template"]
    monitor = rendered(*ALL)["PodMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = [port["name"] for container in pod["spec"]["containers"] for port in container["ports"]]
    assert monitor["podMetricsEndpoints"][0]["port"] in ports


def test_the_pod_monitor_looks_where_tiers_are_served() -> None:
    assert rendered(*ALL)["PodMonitor"]["spec"]["namespaceSelector"] == {"any": True}
    bound = rendered(*ALL, 'watchNamespaces=["team-a","team-b"]')["PodMonitor"]["spec"]
    assert bound["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def test_panels_stand_beside_and_below_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_panel_says_what_it_shows() -> None:
    for panel in panels():
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
