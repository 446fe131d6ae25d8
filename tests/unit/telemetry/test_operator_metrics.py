"""The metrics page: conditions follow the tier and vanish with it, and two operators never share a registry."""

from prometheus_client import CollectorRegistry

from tierwright.telemetry.metrics import Metrics

KEY = ("serving", "fast")


def value(metrics: Metrics, type_: str, status: str) -> float | None:
    labels = {"namespace": KEY[0], "name": KEY[1], "type": type_, "status": status}
    return metrics.registry.get_sample_value("tierwright_tier_condition", labels)


def test_exactly_one_status_of_a_condition_is_one() -> None:
    metrics = Metrics(CollectorRegistry(), "1")
    metrics.set_conditions(KEY, [("Ready", "False")])
    metrics.set_conditions(KEY, [("Ready", "True")])
    assert [value(metrics, "Ready", each) for each in ("True", "False", "Unknown")] == [1.0, 0.0, 0.0]


def test_series_of_a_condition_or_tier_that_is_gone_are_dropped() -> None:
    metrics = Metrics(CollectorRegistry(), "1")
    metrics.set_conditions(KEY, [("Ready", "True"), ("Routed", "False")])
    metrics.set_conditions(KEY, [("Ready", "True")])
    assert value(metrics, "Routed", "False") is None
    metrics.forget_tier(KEY)
    metrics.forget_tier(KEY)
    assert value(metrics, "Ready", "True") is None


def test_two_operators_in_one_process_do_not_collide() -> None:
    first, second = Metrics(CollectorRegistry(), "1"), Metrics(CollectorRegistry(), "1")
    first.watch_queue(lambda: 3.0, lambda: 0.5)
    assert b"tierwright_queue_depth 3.0" in first.render()
    assert b"tierwright_queue_depth 0.0" in second.render()
    assert b'tierwright_build_info{version="1"} 1.0' in first.render()
