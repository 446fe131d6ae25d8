"""Makes the chart's Grafana dashboard: what a tier promises and keeps, its replicas and why, its cost, its engines, the operator.

Queries read what the operator and the engines tell, not the recording rules, so that it works without them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

UID: Final = "tierwright-tiers"
_TIER: Final = 'namespace=~"$namespace", name=~"$tier"'
_ENGINE: Final = 'namespace=~"$namespace", tier=~"$tier"'
_BY: Final = "by (namespace, name)"
_WIDTH: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """One expression and the legend of its series."""

    expression: str
    legend: str = "{{namespace}}/{{name}}"


@dataclass(frozen=True)
class Panel:
    """One panel; `width` in columns of 24, `unit` by Grafana's names."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"
    stacked: bool = False
    decimals: int | None = None


@dataclass(frozen=True)
class Row:
    """A heading and what stands below it."""

    title: str
    panels: tuple[Panel, ...]


def _attainment(window: str) -> str:
    missed = f'increase(tierwright_tier_missed_requests_total{{objective="All", {_TIER}}}[{window}])'
    judged = f'increase(tierwright_tier_judged_requests_total{{objective="All", {_TIER}}}[{window}])'
    return f"1 - sum {_BY} ({missed}) / (sum {_BY} ({judged}) > 0)"


def _latency(metric: str, objective: str) -> tuple[Query, ...]:
    return (
        Query(f"{metric}{{{_TIER}}}", "{{name}} p{{percentile}}"),
        Query(f'tierwright_tier_objective_seconds{{objective="{objective}", {_TIER}}}', "{{name}} promised"),
    )


def _gauges(*pairs: tuple[str, str]) -> tuple[Query, ...]:
    return tuple(Query(f"{metric}{{{_TIER}}}", f"{{{{name}}}} {word}") for metric, word in pairs)


def _rate(metric: str, label: str, legend: str = "", selector: str = _TIER) -> Query:
    return Query(
        f"sum by ({label}) (rate({metric}{{{selector}}}[$__rate_interval]))", legend or f"{{{{{label}}}}}"
    )


_PROMISE: Final = Row(
    "Promise",
    (
        Panel(
            "Attainment",
            "Share of requests that met every objective, over five minutes, an hour and a day, beside what is promised.",
            (
                Query(_attainment("5m"), "{{name}} 5 min"),
                Query(_attainment("1h"), "{{name}} 1 h"),
                Query(_attainment("1d"), "{{name}} 24 h"),
                Query(f"tierwright_tier_promised_attainment_ratio{{{_TIER}}}", "{{name}} promised"),
            ),
            "percentunit",
            width=24,
            kind="stat",
            decimals=2,
        ),
        Panel(
            "Time to first token",
            "Over all pods of the tier.",
            _latency("tierwright_tier_time_to_first_token_seconds", "TimeToFirstToken"),
            "s",
        ),
        Panel(
            "Time per output token",
            "Over all pods of the tier.",
            _latency("tierwright_tier_time_per_output_token_seconds", "TimePerOutputToken"),
            "s",
        ),
        Panel(
            "Misses by objective",
            "Share of the requests held against each objective that missed it. All: any of them.",
            (
                Query(
                    f"sum by (name, objective) (rate(tierwright_tier_missed_requests_total{{{_TIER}}}[$__rate_interval]))"
                    f" / (sum by (name, objective) (rate(tierwright_tier_judged_requests_total{{{_TIER}}}[$__rate_interval])) > 0)",
                    "{{name}} {{objective}}",
                ),
            ),
            "percentunit",
        ),
    ),
)
_REPLICAS: Final = Row(
    "Replicas",
    (
        Panel(
            "Replicas",
            "What the workload is asked for, what is there, and what the autoscaler asks for.",
            _gauges(
                ("tierwright_tier_desired_replicas", "desired"),
                ("tierwright_tier_ready_replicas", "ready"),
                ("tierwright_tier_starting_replicas", "starting"),
                ("tierwright_tier_recommended_replicas", "recommended"),
                ("tierwright_tier_minimum_replicas", "minimum"),
                ("tierwright_tier_maximum_replicas", "maximum"),
            ),
            width=12,
        ),
        Panel(
            "In trouble",
            "Replicas without room in the node pool, and those whose start takes far too long.",
            _gauges(
                ("tierwright_tier_unplaced_replicas", "no room"),
                ("tierwright_tier_failing_replicas", "do not start"),
            ),
            width=6,
        ),
        Panel(
            "Reasons",
            "Decisions by reason; most ticks change nothing.",
            (_rate("tierwright_decisions_total", "reason"),),
            "ops",
            width=6,
            stacked=True,
        ),
    ),
)
_DECISION: Final = Row(
    "Why",
    (
        Panel(
            "Work, in replicas at their limit",
            "What arrives, what is foretold for when a new replica would be ready, and what the ready ones hold.",
            (
                *_gauges(
                    ("tierwright_decision_demand_replicas", "arrives"),
                    ("tierwright_decision_expected_replicas", "foretold"),
                ),
                Query(
                    f"tierwright_tier_ready_replicas{{{_TIER}}} * tierwright_decision_load_limit_ratio{{{_TIER}}}",
                    "{{name}} held by ready replicas",
                ),
            ),
        ),
        Panel(
            "Misses: allowed and expected",
            "Share that the plan may miss, expects to miss, and would miss with any number of replicas.",
            _gauges(
                ("tierwright_decision_allowed_miss_ratio", "allowed"),
                ("tierwright_decision_expected_miss_ratio", "expected"),
                ("tierwright_decision_unavoidable_miss_ratio", "unavoidable"),
            ),
            "percentunit",
        ),
        Panel(
            "Error of the forecast",
            "What arrives less what was foretold for now, in replicas, and the mean size of it.",
            (
                *_gauges(("tierwright_forecast_error_replicas", "now")),
                Query(
                    f"rate(tierwright_forecast_absolute_error_replicas_sum{{{_TIER}}}[1h])"
                    f" / (rate(tierwright_forecast_absolute_error_replicas_count{{{_TIER}}}[1h]) > 0)",
                    "{{name}} mean size, 1 h",
                ),
            ),
        ),
        Panel(
            "Requests per second",
            "Arrivals.",
            _gauges(("tierwright_decision_arrivals_per_second", "arrive")),
            "reqps",
        ),
        Panel(
            "Backlog",
            "Requests that wait.",
            _gauges(("tierwright_decision_backlog_requests", "wait")),
        ),
        Panel(
            "Time to a new replica",
            "Measured starts, and the horizon that follows from them.",
            (
                Query(f"tierwright_tier_start_seconds{{{_TIER}}}", "{{name}} start p{{percentile}}"),
                *_gauges(("tierwright_decision_horizon_seconds", "horizon")),
            ),
            "s",
        ),
    ),
)
_COST: Final = Row(
    "Cost",
    (
        Panel(
            "Accelerator-hours of the last day",
            "Devices held by replicas, those that start or drain included.",
            (
                Query(
                    f"sum {_BY} (increase(tierwright_tier_accelerator_seconds_total{{{_TIER}}}[1d])) / 3600"
                ),
            ),
            "h",
        ),
        Panel(
            "Replica-hours of the last day",
            "Likewise, for tiers on CPUs too.",
            (Query(f"sum {_BY} (increase(tierwright_tier_replica_seconds_total{{{_TIER}}}[1d])) / 3600"),),
            "h",
        ),
        Panel(
            "Cost of the last day",
            "In the currency of scaling.cost; nothing for tiers without a price.",
            (Query(f"sum {_BY} (increase(tierwright_tier_cost_total{{{_TIER}}}[1d]))"),),
        ),
    ),
)
_SAMPLES: Final = Row(
    "Samples",
    (
        Panel(
            "Age of the newest sample",
            "Nothing shrinks on old figures.",
            (Query(f"time() - tierwright_tier_newest_sample_timestamp_seconds{{{_TIER}}}"),),
            "s",
        ),
        Panel(
            "Pods read, and not",
            "Readings that gave a sample, and the others by cause.",
            (
                _rate("tierwright_pod_scrapes_total", "name", "{{name}} read"),
                _rate("tierwright_pod_scrape_failures_total", "cause", "not: {{cause}}"),
            ),
            "ops",
        ),
        Panel(
            "Unreadable families",
            "Families that were missing on a page or not to be believed.",
            (_rate("tierwright_page_faults_total", "kind"),),
            "ops",
        ),
    ),
)
_ENGINES: Final = Row(
    "Engines (need the chart's PodMonitor)",
    (
        Panel(
            "Requests in the engines",
            "Those that run and those that wait.",
            (
                Query(f"sum by (tier) (vllm:num_requests_running{{{_ENGINE}}})", "{{tier}} running"),
                Query(f"sum by (tier) (vllm:num_requests_waiting{{{_ENGINE}}})", "{{tier}} waiting"),
            ),
        ),
        Panel(
            "KV cache in use",
            "The fullest pod and the mean.",
            (
                Query(f"max by (tier) (vllm:kv_cache_usage_perc{{{_ENGINE}}})", "{{tier}} fullest"),
                Query(f"avg by (tier) (vllm:kv_cache_usage_perc{{{_ENGINE}}})", "{{tier}} mean"),
            ),
            "percentunit",
        ),
        Panel(
            "Tokens per second",
            "Prompt tokens read and tokens generated.",
            (
                _rate("vllm:prompt_tokens_total", "tier", "{{tier}} prompt", _ENGINE),
                _rate("vllm:generation_tokens_total", "tier", "{{tier}} generated", _ENGINE),
            ),
        ),
    ),
)
_OPERATOR: Final = Row(
    "Operator",
    (
        Panel(
            "Reconciles",
            "By result.",
            (_rate("tierwright_reconciles_total", "result", selector=""),),
            "ops",
            6,
        ),
        Panel("Errors", "By reason.", (_rate("tierwright_errors_total", "reason", selector=""),), "ops", 6),
        Panel(
            "API requests",
            "By status code; 0 is no answer.",
            (_rate("tierwright_api_requests_total", "code", selector=""),),
            "ops",
            6,
        ),
        Panel(
            "Queue",
            "Tiers that wait for a reconcile, and how long the oldest is overdue, in seconds.",
            (
                Query("tierwright_queue_depth", "waiting"),
                Query("tierwright_queue_oldest_overdue_seconds", "seconds overdue"),
            ),
            width=6,
        ),
    ),
)
ROWS: Final = (_PROMISE, _REPLICAS, _DECISION, _COST, _SAMPLES, _ENGINES, _OPERATOR)


def dashboard_json() -> str:
    """The dashboard as Grafana imports it."""
    document = {
        "uid": UID,
        "title": "Tierwright tiers",
        "tags": ["tierwright", "llm"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": list(_placed(ROWS)),
    }
    return json.dumps(document, indent=1) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    for name, label, query in (
        ("namespace", "Namespace", "label_values(tierwright_tier_condition, namespace)"),
        ("tier", "Tier", 'label_values(tierwright_tier_condition{namespace=~"$namespace"}, name)'),
    ):
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows and panels with numbers and places: from left to right, as many lines as they need."""
    number, top = 1, 0
    for row in rows:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
        }
        number, top, left, height = number + 1, top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                left, top = 0, top + height
            height = 5 if panel.kind == "stat" else 8
            yield _panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": height})
            number, left = number + 1, left + panel.width
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom = {"fillOpacity": 20, "stacking": {"mode": "normal"}} if panel.stacked else {"fillOpacity": 0}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": custom}
    if panel.kind == "stat":
        del defaults["custom"]
    if "error" in panel.title.lower():
        del defaults["min"]
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    options: dict[str, Any] = (
        {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "colorMode": "none"}
        if panel.kind == "stat"
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    )
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "editorMode": "code",
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": panel.kind != "stat",
                "instant": panel.kind == "stat",
            }
            for index, query in enumerate(panel.queries)
        ],
    }
