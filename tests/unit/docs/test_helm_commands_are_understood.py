"""Every ``helm install`` and ``helm upgrade`` that a page shows is one that the chart takes, with values that its schema knows."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from dev import chart
from tests.support.documents import ROOT, blocks, documents

COMMAND = re.compile(
    r"^(?:\$ )?helm (?:install|upgrade) tierwright charts/tierwright (?P<flags>.*)$", re.MULTILINE
)
OF_A_CLUSTER = {"--create-namespace", "--reuse-values", "--reset-then-reuse-values", "--wait"}
"""Flags that mean nothing where helm only renders."""


def shown(page: Path) -> list[str]:
    """The flags of each command of the page; continued lines joined, variables given a value."""
    texts = [each.text.replace("\\\n", " ") for each in blocks(page) if each.language in ("sh", "console")]
    return [re.sub(r"\$\w+", "given", found["flags"]) for text in texts for found in COMMAND.finditer(text)]


COMMANDS = [(page, flags) for page in documents() for flags in shown(page)]


def rendered(flags: str) -> str:
    """What helm renders with these flags."""
    words = [each for each in shlex.split(flags) if each not in OF_A_CLUSTER]
    monitoring = [
        f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor")
    ]
    return chart.run_helm(
        ["template", chart.RELEASE, str(chart.CHART), *monitoring, "--kube-version", "1.37.0", *words]
    )


def test_there_are_some() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize(
    ("page", "flags"), COMMANDS, ids=[f"{page.name}:{flags[-40:]}" for page, flags in COMMANDS]
)
def test_the_chart_takes_it(page: Path, flags: str) -> None:
    assert "kind: Deployment" in rendered(flags), page


def test_a_prometheus_in_place_of_the_pods_is_named_in_the_operators_environment() -> None:
    page = ROOT / "docs/how-to/monitor-the-operator.md"
    (flags,) = [flags for flags in shown(page) if "PROMETHEUS_URL" in flags]
    (operator,) = [
        each for each in yaml.safe_load_all(rendered(flags)) if each and each["kind"] == "Deployment"
    ]
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["TIERWRIGHT_PROMETHEUS_URL"] == "http://prometheus.monitoring.svc:9090"
