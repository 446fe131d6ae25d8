"""What is allowed but likely not meant is warned of, at its path; a careful tier gives no warnings."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.tiers.cases import load, sample_files, spec, tier
from tierwright.api.parse import parse_tier
from tierwright.api.warnings import (
    not_used_yet,
    tier_warnings,
)

SHARED = {"size": "1Gi", "accessMode": "ReadWriteMany", "sharing": "Shared"}
PINNED = {"hardware.nodePool.matchLabels": {"pool": "a"}, "cache.weights": {"size": "1Gi"}}


def warnings_of(changes: dict[str, Any], base: str = "gpu") -> list[str]:
    result = parse_tier(tier(spec(base, PINNED | changes if base != "cpu" else changes)), strict=True)
    assert result.tier is not None, result.errors
    return [*tier_warnings(result.tier.spec)]


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_the_samples_give_no_warnings(path: Path) -> None:
    result = parse_tier(load(path), strict=True)
    assert result.tier is not None
    assert tier_warnings(result.tier.spec) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scaling.objectives": {"timeToFirstToken": "25ms"}}, "spec.scaling.objectives.timeToFirstToken: the engine's histogram has no bound near 25ms, so attainment is an estimate; use 20ms or 30ms"),
        ({"scaling.objectives": {"timeToFirstToken": "0.5ms"}}, "spec.scaling.objectives.timeToFirstToken: the engine's histogram has no bound near 0.5ms, so attainment is an estimate; use 1ms"),
        ({"scaling.objectives": {"timePerOutputToken": "90s"}}, "spec.scaling.objectives.timePerOutputToken: the engine's histogram has no bound near 90s, so attainment is an estimate; use 80000ms"),
        ({"engine.speculation": {"method": "NGram", "tokens": 3}}, "spec.engine.speculation: at a batch of the engine's own, often 256 or more, it costs more"),
        ({"engine.speculation": {"method": "NGram", "tokens": 3}, "engine.batching.maxSequences": 64}, "spec.engine.speculation: at a batch of 64 it costs more"),
        ({"engine.image": "r/a:latest"}, "spec.engine.image: r/a:latest can mean another image"),
        ({"engine.image": "r:5000/a"}, "spec.engine.image: r:5000/a can mean another image"),
        ({"model.source": "hf://a/b"}, "spec.model.source: without @revision"),
        ({"engine.speculation": {"method": "DraftModel", "tokens": 3, "disableAboveBatchSize": 4, "draftModel": {"source": "hf://a/b"}}}, "spec.engine.speculation.draftModel.source: without @revision"),
        ({"cache": {}}, "spec.model.source: each pod fetches the weights anew"),
        ({"cache": {}, "model.source": "pvc://c", "engine.speculation": {"method": "DraftModel", "tokens": 3, "disableAboveBatchSize": 4, "draftModel": {"source": "s3://bucket/b"}}}, "spec.engine.speculation.draftModel.source: each pod fetches"),
        ({"cache.weights": {"size": "1Gi", "sharing": "PerReplica"}}, "spec.cache.weights: each new pod fetches the weights anew"),
        ({"hardware.nodePool": {}}, "spec.hardware.nodePool: pods may run on any node"),
        ({"scaling.coldStart": "30m"}, "spec.rollout.startupTimeout: 30m is no more than scaling.coldStart (30m)"),
    ],
)  # fmt: skip
def test_a_gpu_tier_is_warned_of(changes: dict[str, Any], words: str) -> None:
    found = warnings_of(changes)
    assert len(found) == 1
    assert found[0].startswith(words)


def test_a_device_that_compiles_in_each_pod_is_warned_of() -> None:
    """aws-neuron-sdk#1368, llm-d#2216: programs on a volume that no other pod sees are compiled at each start."""
    (warning,) = warnings_of({}, "neuron")
    assert warning.startswith("spec.cache.compile: each new pod compiles")
    assert len(warnings_of({"cache.compile": {"size": "1Gi"}}, "neuron")) == 1
    assert warnings_of({"cache.compile": SHARED}, "neuron") == []
    assert not [words for words in warnings_of({"engine.type": "jax"}, "cpu") if "compile" in words]


def test_the_workers_own_batch_is_small_enough_to_speculate() -> None:
    speculating = {"engine.speculation": {"method": "NGram", "tokens": 3}, "engine.type": "jax"}
    assert not [words for words in warnings_of(speculating, "cpu") if "speculation" in words]
    large = speculating | {"engine.batching.maxSequences": 64}
    assert [words for words in warnings_of(large, "cpu") if words.startswith("spec.engine.speculation")]


@pytest.mark.parametrize(
    "pool",
    [
        {"matchLabels": {"node.kubernetes.io/instance-type": "inf2.xlarge"}},
        {
            "matchExpressions": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["inf2.xlarge"]}
            ]
        },
    ],
)
def test_the_small_neuron_host_is_warned_of(pool: dict[str, Any]) -> None:
    assert "too little to compile" in warnings_of({"hardware.nodePool": pool}, "neuron")[0]
    with_memory = {"hardware.nodePool": pool, "hardware.resources.memory": "32Gi"}
    assert "32Gi never fits" in warnings_of(with_memory, "neuron")[0]


@pytest.mark.parametrize(
    ("changes", "base"),
    [
        ({}, "gpu"),
        ({"engine.image": "r/a@sha256:0"}, "gpu"),
        ({"engine.image": "r:5000/a:1"}, "gpu"),
        ({"engine.speculation": {"method": "NGram", "tokens": 3}, "engine.batching.maxSequences": 32}, "gpu"),
        ({"scaling.objectives": {"timeToFirstToken": "2.5s", "timePerOutputToken": "25ms"}}, "gpu"),
        ({"scaling.objectives": {"timeToFirstToken": "250ms"}, "cache.compile": SHARED}, "neuron"),
        ({"scaling.coldStart": "3m"}, "gpu"),
        ({"hardware.nodePool": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, "gpu"),
        ({"hardware.resources.cpu": 4}, "cpu"),
    ],
)
def test_a_careful_tier_gives_no_warnings(changes: dict[str, Any], base: str) -> None:
    assert warnings_of(changes, base) == []


def test_what_nothing_acts_on_yet_is_said_for_the_command_line_alone() -> None:
    objectives = {"scaling.objectives": {"timeToFirstToken": "500ms"}}
    plain = parse_tier(tier(spec("gpu", PINNED | objectives)), strict=True).tier
    assert plain is not None
    assert not_used_yet(plain.spec) == ()
    waits = {"traffic": {"priceMultiplier": "2"}}
    result = parse_tier(tier(spec("gpu", PINNED | objectives | waits)), strict=True)
    assert result.tier is not None, result.errors
    paths = [words.partition(": ")[0] for words in not_used_yet(result.tier.spec)]
    assert paths == ["spec.traffic"]
    assert tier_warnings(result.tier.spec) == ()


def test_a_cpu_tier_without_cores_is_warned_of() -> None:
    assert warnings_of({}, "cpu")[0].startswith("spec.hardware.resources.cpu: nothing is reserved")
