"""Reading a tier: all errors at once, each at the user's path with the fix; stored objects are read as the server reads them."""

import copy
import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiers.cases import load, sample_files, spec, tier
from tests.support.tiers.generate import specs
from tierwright.api.parse import FieldError, ParsedTier, parse_tier
from tierwright.api.status import TierStatus


def errors(changes: dict[str, Any], base: str = "gpu", strict: bool = True) -> dict[str, str]:
    result = parse_tier(tier(spec(base, changes)), strict=strict)
    assert (result.tier is None) == bool(result.errors)
    return {error.path: error.message for error in result.errors}


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_the_samples_are_valid(path: Path) -> None:
    result = parse_tier(load(path), strict=True)
    assert result.errors == ()
    assert result.tier is not None
    assert result.tier.metadata.name


def test_there_are_samples_of_every_accelerator_and_engine() -> None:
    specs_of_samples = [load(path)["spec"] for path in sample_files()]
    assert {each["hardware"]["accelerator"] for each in specs_of_samples} == {"nvidia", "neuron", "cpu"}
    assert {each["engine"]["type"] for each in specs_of_samples} == {"vllm", "jax"}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"speed": "Fast"}, "spec.speed", 'is "Fast"; write lower-case letters, digits and - with a letter or digit at both ends, such as fast'),
        ({"engine.type": "tgi"}, "spec.engine.type", 'is "tgi"; use vllm or jax'),
        ({"engine.tensorParallel": "1"}, "spec.engine.tensorParallel", 'is "1"; write a whole number without quotes'),
        ({"engine.tensorParallel": 0}, "spec.engine.tensorParallel", "is 0; use 1 or more"),
        ({"replicas": 1001}, "spec.replicas", "is 1001; use 1000 or less"),
        ({"suspend": "yes"}, "spec.suspend", 'is "yes"; write true or false without quotes'),
        ({"engine.env": {}}, "spec.engine.env", "is {}; write a list"),
        ({"cache": []}, "spec.cache", "is []; write an object"),
        ({"hardware.nodePool.matchLabels": []}, "spec.hardware.nodePool.matchLabels", "is []; write an object"),
        ({"hardware.nodePool": "h100"}, "spec.hardware.nodePool", 'is "h100"; write an object, such as {matchLabels: {karpenter.sh/nodepool: h100}}'),
        ({"engine.image": ""}, "spec.engine.image", 'is ""; write an image such as registry/repository:tag, without spaces'),
        ({"engine.extraArgs": [""]}, "spec.engine.extraArgs[0]", 'is ""; write at least 1 character'),
        ({"hardware.resources.memory": "200GB"}, "spec.hardware.resources.memory", 'is "200GB"; write 200Gi, not 200GB'),
        ({"hardware.resources.memory": "1.5 gib"}, "spec.hardware.resources.memory", 'is "1.5 gib"; write 1.5Gi, not 1.5 gib'),
        ({"hardware.resources.memory": "much"}, "spec.hardware.resources.memory", 'is "much"; write a quantity without sign, such as 24, 500m or 200Gi'),
        ({"speed": "a" * 33}, "spec.speed", f'is "{"a" * 33}"; write at most 32 characters'),
        ({"engine.extraArgs": ["--a"] * 65}, "spec.engine.extraArgs", "has 65 entries; give at most 64"),
        ({"traffic.fallback": {"to": "slow", "when": []}}, "spec.traffic.fallback.when", "has 0 entries; give at least 1"),
        ({"engine.env": [{"value": "x"}]}, "spec.engine.env[0].name", "is missing; set it"),
        ({"hardware.nodePool.matchLabels": {"a.b/c": 3}}, "spec.hardware.nodePool.matchLabels[a.b/c]", "is 3; write a label value: letters, digits, - _ and . with a letter or digit at both ends"),
        ({"rollout.drainTimeout": 5}, "spec.rollout.drainTimeout", "is 5; write a duration such as 500ms, 30s, 5m or 1h30m"),
        ({"rollout.maxSurge": 1.5}, "spec.rollout.maxSurge", "is 1.5; write a number of pods, or a percentage such as 25%"),
        ({"model.source": True}, "spec.model.source", "is true; write hf://owner/repo@revision, s3://bucket/prefix, pvc://claim/path or file:///path"),
        ({"engine.env": [{"name": "A", "value": 3}]}, "spec.engine.env[0].value", "is 3; write text in quotes"),
        ({"engine.env": [{"name": "A", "value": ""}] * 2}, "spec.engine.env", "'A' stands here twice; keep one item for each name"),
        ({"engine.jax.lengthBuckets": [128, 128]}, "spec.engine.jax.lengthBuckets", "128 stands here twice; keep one of them"),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_form_says_what_it_takes(
    changes: dict[str, Any], path: str, message: str
) -> None:
    assert errors(changes)[path] == message


def test_a_long_value_is_cut() -> None:
    message = errors({"engine.image": "x" * 600})["spec.engine.image"]
    assert message == f'is "{"x" * 56}...; write at most 512 characters'


def test_an_unknown_field_is_an_error_with_a_guess_when_strict() -> None:
    wrong = {"engine.batching": {"max_sequences": 4}, "engine.tensorParalel": 1, "nonsense": 1}
    assert errors(wrong) == {
        "spec.engine.batching.max_sequences": "there is no such field; did you mean maxSequences?",
        "spec.engine.tensorParalel": "there is no such field; did you mean tensorParallel?",
        "spec.nonsense": "there is no such field; remove it or use one of cache, engine, hardware, model, pod, "
        "podTemplate, replicas, rollout, scaling, speed, suspend, traffic",
    }
    assert errors(wrong, strict=False) == {}


def test_a_field_that_stands_in_another_block_is_found_there() -> None:
    wrong = {"engine.hosts": 2, "hardware.max_sequences": 4, "tensorParallel": 2, "hardware.size": "1Gi"}
    found = errors(wrong)
    assert found["spec.engine.hosts"] == "there is no such field here; did you mean spec.hardware.hosts?"
    assert found["spec.hardware.max_sequences"].endswith("did you mean spec.engine.batching.maxSequences?")
    assert found["spec.tensorParallel"].endswith("did you mean spec.engine.tensorParallel?")
    assert found["spec.hardware.size"].startswith(
        "there is no such field; remove it or use one of accelerator,"
    )


def test_what_yaml_reads_as_true_is_called_when() -> None:
    found = errors({"traffic.fallback": {"to": "slow", "when": ["RateLimited"], "on": ["Overloaded"]}})
    assert found == {"spec.traffic.fallback.on": "there is no such field; did you mean when?"}


def test_an_unknown_field_inside_a_list_has_its_index() -> None:
    found = errors({"engine.env": [{"name": "A", "value": "x", "valu": "y"}]})
    assert found == {"spec.engine.env[0].valu": "there is no such field; did you mean value?"}


def test_all_errors_come_at_once_also_rules_of_sound_parts() -> None:
    found = errors({"speed": "Fast", "scaling.mode": "Auto", "cache.weights": {}, "engine.image": ""})
    assert set(found) == {
        "spec.speed",
        "spec.cache.weights.size",
        "spec.engine.image",
        "spec.scaling.maxReplicas",
        "spec.scaling.objectives",
    }


def test_errors_outside_the_spec_are_told_too() -> None:
    obj = {"apiVersion": "v1", "kind": "Tier", "metadata": {"name": "A"}, "specs": {}}
    found = {error.path: error.message for error in parse_tier(obj, strict=True).errors}
    assert set(found) == {"apiVersion", "kind", "metadata.name", "spec", "specs"}
    assert found["apiVersion"] == 'is "v1"; set apiVersion: tierwright.dev/v1alpha1'
    assert found["specs"] == "there is no such field; did you mean spec?"
    assert found["spec"] == "is missing; write what the tier shall be"
    assert found["metadata.name"].startswith('is "A"; write the name of an object')


def test_missing_metadata_is_an_error() -> None:
    found = parse_tier(
        {"apiVersion": "tierwright.dev/v1alpha1", "kind": "InferenceTier", "spec": []}, strict=False
    )
    assert [str(error) for error in found.errors] == [
        "metadata: is missing; write an object",
        "spec: is []; write an object",
    ]


@pytest.mark.parametrize("value", [None, [], 3, "text", True])
def test_what_is_no_object_is_an_error(value: object) -> None:
    result = parse_tier(value, strict=False)
    assert result.tier is None
    assert "an object is expected" in result.errors[0].message


def test_nulls_are_dropped_as_the_server_drops_them() -> None:
    content = spec(
        "gpu",
        {
            "engine.kvCache": None,
            "cache": None,
            "engine.env": [{"name": "A", "value": "", "valueFrom": None}],
        },
    )
    content["scaling"] = {"mode": None, "cost": None}
    result = parse_tier(tier(content), strict=True)
    assert result.errors == ()
    assert result.tier is not None
    assert result.tier.spec.scaling.mode == "Manual"


def test_the_pod_template_is_kept_as_it_is() -> None:
    template = {"spec": {"tolerations": None, "hostNetwork": True}}
    result = parse_tier(tier(spec("gpu", {"podTemplate": template})), strict=True)
    assert result.tier is not None
    assert result.tier.spec.pod_template == template


@pytest.mark.parametrize("value", [datetime.date(2026, 1, 1), {1, 2}, float("nan"), b"x"])
def test_what_yaml_reads_and_json_cannot_say_is_an_error(value: object) -> None:
    result = parse_tier(tier(spec("gpu", {"podTemplate": {"spec": value}})), strict=True)
    assert result.tier is None
    assert "JSON cannot say" in result.errors[0].message


def test_an_object_that_holds_itself_is_an_error() -> None:
    loop: dict[str, Any] = tier(spec("gpu", {}))
    loop["spec"]["podTemplate"] = loop
    assert parse_tier(loop, strict=True).tier is None


def test_a_deeply_nested_object_is_an_error() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    result = parse_tier(tier(spec("gpu", {"podTemplate": deep})), strict=True)
    assert result.errors == (FieldError("", "the object is nested too deeply to be a tier"),)


def test_text_that_is_no_unicode_is_an_error() -> None:
    found = errors({"engine.env": [{"name": "A", "value": "\ud800"}]})
    assert list(found) == ["spec"]


def test_a_stored_status_that_can_be_read_is_kept() -> None:
    obj = tier(spec("gpu", {})) | {"status": {"readyReplicas": 2, "gone": 1}}
    result = parse_tier(obj, strict=True)
    assert result.tier is not None
    assert result.tier.status.ready_replicas == 2


def test_a_stored_status_that_cannot_be_read_harms_nothing() -> None:
    obj = tier(spec("gpu", {})) | {"status": {"conditions": "none"}}
    result = parse_tier(obj, strict=False)
    assert result.tier is not None
    assert result.tier.status == TierStatus()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def assert_told(result: ParsedTier) -> None:
    assert (result.tier is None) == bool(result.errors)
    assert all(error.message for error in result.errors)


@given(value=JSON, strict=st.booleans())
def test_any_json_gives_a_tier_or_errors(value: object, strict: bool) -> None:
    assert_told(parse_tier(value, strict))
    assert_told(parse_tier(tier({"spec": value}) | {"spec": value, "status": value}, strict))


@settings(max_examples=100)
@given(data=st.data(), strict=st.booleans())
def test_any_value_at_any_place_of_a_tier_gives_a_tier_or_errors(data: st.DataObject, strict: bool) -> None:
    obj = copy.deepcopy(load(data.draw(st.sampled_from(sample_files()))))
    node: Any = obj
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not (isinstance(node[key], (dict, list)) and node[key]) or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(JSON)
    assert_told(parse_tier(obj, strict))


@settings(max_examples=100)
@given(content=specs())
def test_what_is_read_is_read_again_from_what_is_written(content: dict[str, Any]) -> None:
    first = parse_tier(tier(content), strict=False).tier
    if first is not None:
        again = parse_tier(json.loads(json.dumps(first.to_wire())), strict=True)
        assert again.errors == ()
        assert again.tier == first
