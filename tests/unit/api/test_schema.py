"""The schema and the CRD: only what the API server takes, everything bounded, small enough for client-side apply."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, Field

from tierwright.api import patterns
from tierwright.api.crd import CRD_NAME, crd_yaml, custom_resource_definition, object_schema
from tierwright.api.markers import Atomic, ListMap, ListSet
from tierwright.api.schema import JsonSchema, SchemaError, structural_schema
from tierwright.api.status import TierStatus
from tierwright.api.tier import TierSpec

CLIENT_SIDE_APPLY_LIMIT = 262_144
ALLOWED = {
    *("type", "description", "default", "enum", "pattern", "format", "properties", "required", "items"),
    *(
        "additionalProperties",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ),
    *(
        "minimum",
        "maximum",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ),
    *("x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
}
YAML_BOOLEANS = {"y", "n", "yes", "no", "on", "off", "true", "false"}


def walk(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from walk(member, f"{path}.{name}")
    for inside in ("items", "additionalProperties"):
        if inside in schema:
            yield from walk(schema[inside], f"{path}.{inside}")


ALL = [
    *walk(object_schema()["properties"]["spec"], "spec"),
    *walk(object_schema()["properties"]["status"], "status"),
]


def test_nothing_stands_in_the_schema_that_the_server_does_not_know() -> None:
    for path, schema in ALL:
        assert set(schema) <= ALLOWED, path


def test_every_text_list_and_map_is_bounded() -> None:
    for path, schema in ALL:
        if schema.get("type") == "string" and "enum" not in schema:
            assert "maxLength" in schema, path
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path
        if schema.get("x-kubernetes-int-or-string"):
            assert {"maxLength", "pattern", "minimum", "maximum"} <= set(schema), path


def test_every_number_of_the_spec_is_bounded() -> None:
    for path, schema in ALL:
        if path.startswith("spec") and schema.get("type") == "integer" and "enum" not in schema:
            assert {"minimum", "maximum"} <= set(schema), path


def test_only_the_pod_template_keeps_unknown_fields() -> None:
    assert [path for path, schema in ALL if "x-kubernetes-preserve-unknown-fields" in schema] == [
        "spec.podTemplate"
    ]


def test_every_field_says_what_it_is() -> None:
    for path, schema in ALL:
        if not path.endswith((".items", ".additionalProperties")) and path not in ("spec", "status"):
            assert schema.get("description"), path


def test_no_field_is_one_that_yaml_reads_as_a_boolean() -> None:
    for path, schema in ALL:
        assert not {name.lower() for name in schema.get("properties", {})} & YAML_BOOLEANS, path
        assert not {str(choice).lower() for choice in schema.get("enum", ())} & {*YAML_BOOLEANS, "null"} or (
            path == "status.conditions.items.status"
        ), path


def test_every_pattern_of_the_spec_has_words() -> None:
    used = {schema["pattern"] for path, schema in ALL if path.startswith("spec") and "pattern" in schema}
    assert used | {patterns.NAMESPACE} == set(patterns.WORDS)  # that one is of the metadata


def test_defaults_are_those_of_the_models() -> None:
    minimal = {
        "model": {"name": "m", "source": "hf://o/r"},
        "speed": "fast",
        "engine": {"type": "vllm"},
        "hardware": {"accelerator": "cpu"},
    }
    spec = TierSpec.model_validate(minimal)

    def check(schema: JsonSchema, value: Any, path: str) -> None:
        for name, member in schema["properties"].items():
            if "default" in member and "properties" not in member:
                assert value[name] == member["default"], f"{path}.{name}"
            if "properties" in member and isinstance(value.get(name), dict):
                check(member, value[name], f"{path}.{name}")

    check(structural_schema(TierSpec), spec.to_wire(), "spec")


def test_an_object_is_defaulted_with_all_that_is_defaulted_in_it() -> None:
    scaling = structural_schema(TierSpec)["properties"]["scaling"]
    assert scaling["default"] == {
        "mode": "Manual",
        "attainment": "0.95",
        "priority": 0,
        "scaleDown": {"stabilization": "10m"},
    }
    assert "default" not in structural_schema(TierSpec)["properties"]["pod"]


def test_client_side_apply_can_keep_the_crd_in_an_annotation() -> None:
    text = json.dumps(custom_resource_definition(), separators=(",", ":"))
    assert len(text.encode()) < CLIENT_SIDE_APPLY_LIMIT // 2


def test_the_crd_is_named_for_its_kind_and_has_both_subresources() -> None:
    crd = yaml.safe_load(crd_yaml())
    version = crd["spec"]["versions"][0]
    assert crd["metadata"]["name"] == CRD_NAME == "inferencetiers.tierwright.dev"
    assert crd["spec"]["names"]["shortNames"] == ["itier"]
    assert crd["spec"]["names"]["categories"] == ["tierwright"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }


def test_columns_and_scale_read_fields_that_exist() -> None:
    paths = {path for path, _ in ALL}
    version = custom_resource_definition()["spec"]["versions"][0]
    read = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    for path in [*read, *version["subresources"]["scale"].values()]:
        if not path.startswith((".metadata", ".status.conditions[")):
            assert path.removeprefix(".") in paths


def test_every_rule_is_reported_at_a_field_that_exists() -> None:
    paths = {path for path, _ in ALL}
    rules = 0
    for path, schema in ALL:
        for rule in schema.get("x-kubernetes-validations", ()):
            rules += 1
            assert path + rule["fieldPath"] in paths
    assert rules > 100


def test_condition_lists_are_merged_by_their_type() -> None:
    conditions = structural_schema(TierStatus)["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


class Nested(BaseModel):
    plain: int = 3


class Forms(BaseModel):
    """Constructs that the models use or may use."""

    optional: Nested | None = None
    one: Annotated[str, Field(json_schema_extra={"const": "x"})] = "x"
    values: Annotated[dict[str, Annotated[str, Field(max_length=3)]], Field(max_length=2), Atomic()] = {}
    unique: Annotated[list[int], ListSet()] = []
    pairs: Annotated[list[Nested], ListMap(("plain",))] = []


def test_constructs_become_what_a_structural_schema_can_say() -> None:
    properties = structural_schema(Forms)["properties"]
    assert properties["optional"] == {
        "type": "object",
        "properties": {"plain": {"type": "integer", "default": 3}},
    }
    assert properties["one"]["enum"] == ["x"]
    assert properties["values"]["x-kubernetes-map-type"] == "atomic"
    assert properties["values"]["additionalProperties"] == {"type": "string", "maxLength": 3}
    assert properties["unique"]["x-kubernetes-list-type"] == "set"


class TwoTypes(BaseModel):
    value: int | str


class Anything(BaseModel):
    value: dict[str, Any]


class Exclusive(BaseModel):
    value: Annotated[int, Field(gt=0)]


class NoType(BaseModel):
    value: Any


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (TwoTypes, "TwoTypes.value: a field has one type"),
        (Anything, "Anything.value: holds anything"),
        (Exclusive, "Exclusive.value: a structural schema cannot say exclusiveMinimum"),
        (NoType, "NoType.value: has no type"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_refused(model: type[BaseModel], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        structural_schema(model)
