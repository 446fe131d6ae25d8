"""The page on monitoring names every metric of the operator with its labels, and none that there is not."""

import re

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from tests.support import ticks
from tests.support.documents import ROOT
from tierwright.telemetry import autoscaling_names, names
from tierwright.telemetry.metrics import Metrics

KNOWN = {
    value
    for module in (names, autoscaling_names)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and value.startswith("tierwright_")
}
PAGE = (ROOT / "docs/how-to/monitor-the-operator.md").read_text(encoding="utf-8")


def test_the_table_lists_each_metric_once() -> None:
    listed = re.findall(r"^\| `(tierwright_\w+)` \|", PAGE, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == KNOWN


def test_its_labels_are_the_metrics_own() -> None:
    metrics = Metrics(CollectorRegistry(), "1")
    ticks.metrics(metrics.registry)
    made = {
        name: list(metric._labelnames)
        for metric, its_names in metrics.registry._collector_to_names.items()
        if isinstance(metric, MetricWrapperBase)
        for name in its_names
    }
    for name, labels in re.findall(r"^\| `(tierwright_\w+)` \| ([^|]*)\|", PAGE, re.MULTILINE):
        assert re.findall(r"`(\w+)`", labels) == made[name], name


def test_expressions_name_metrics_that_there_are() -> None:
    used = set(re.findall(r"tierwright_[a-z_]+", PAGE)) - {"tierwright_worker_"}
    recorded = {word for word in used if f"tier:{word}" in PAGE}
    assert used - recorded == KNOWN
