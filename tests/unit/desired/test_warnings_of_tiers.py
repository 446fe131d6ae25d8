"""What is allowed but likely not meant is said, with its field; what is meant is not."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, tier

NGRAM = {"method": "NGram", "tokens": 5}
INF2 = "node.kubernetes.io/instance-type"


def warnings(accelerator: str = "nvidia", **spec: Any) -> tuple[str, ...]:
    return bundle_of(tier(accelerator, **spec)).warnings


def objectives(first: str | None = None, each: str | None = None) -> tuple[str, ...]:
    wanted = {"timeToFirstToken": first, "timePerOutputToken": each}
    return warnings(scaling={"objectives": {name: text for name, text in wanted.items() if text}})


def test_an_ordinary_tier_has_no_warnings() -> None:
    assert warnings() == ()
    assert warnings(scaling={"objectives": {}}) == ()


@pytest.mark.parametrize(("first", "each"), [("500ms", "25ms"), ("1s", "50ms"), ("2500ms", "100ms")])
def test_objectives_that_the_engine_counts_exactly_are_not_warned_of(first: str, each: str) -> None:
    assert objectives(first, each) == ()


@pytest.mark.parametrize(
    ("first", "each", "field", "advice"),
    [
        ("300ms", None, "timeToFirstToken", "250ms or 500ms"),
        (None, "30ms", "timePerOutputToken", "25ms or 50ms"),
        (None, "2ms", "timePerOutputToken", "is 10ms"),
        ("2h", None, "timeToFirstToken", "is 2560000ms"),
    ],
)
def test_an_objective_between_two_buckets_is_an_estimate(
    first: str | None, each: str | None, field: str, advice: str
) -> None:
    (warning,) = objectives(first, each)
    assert warning.startswith(f"spec.scaling.objectives.{field}:")
    assert advice in warning


@pytest.mark.parametrize("batching", [{}, {"maxSequences": 64}])
def test_speculation_in_a_large_batch_is_warned_of(batching: dict[str, int]) -> None:
    (warning,) = warnings(engine={"speculation": NGRAM, "batching": batching})
    assert warning.startswith("spec.engine.speculation:")


@pytest.mark.parametrize(
    "engine",
    [
        {"speculation": NGRAM, "batching": {"maxSequences": 16}},
        {"speculation": {**NGRAM, "disableAboveBatchSize": 8}},
    ],
)
def test_speculation_in_a_small_batch_is_meant(engine: dict[str, Any]) -> None:
    assert warnings(engine=engine) == ()


@pytest.mark.parametrize(
    "pool",
    [
        {"matchLabels": {INF2: "inf2.xlarge"}},
        {"matchExpressions": [{"key": INF2, "operator": "In", "values": ["inf2.8xlarge", "inf2.xlarge"]}]},
    ],
)
def test_a_host_too_small_to_compile_on_is_warned_of(pool: dict[str, Any]) -> None:
    (warning,) = warnings("neuron", hardware={"nodePool": pool})
    assert warning.startswith("spec.hardware.nodePool:")


@pytest.mark.parametrize(
    "pool",
    [
        {},
        {"matchLabels": {INF2: "inf2.8xlarge", "name": "inf2.xlarge"}},
        {"matchExpressions": [{"key": INF2, "operator": "NotIn", "values": ["inf2.xlarge"]}]},
    ],
)
def test_larger_hosts_are_not_warned_of(pool: dict[str, Any]) -> None:
    assert warnings("neuron", hardware={"nodePool": pool}) == ()


def test_what_the_engine_warns_of_is_passed_on() -> None:
    (warning,) = warnings(engine={"version": "0.20.0"})
    assert warning.startswith("spec.engine.version:")
