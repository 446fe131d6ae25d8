"""Turns a pydantic model into the structural OpenAPI v3 schema that a CustomResourceDefinition may hold.

pydantic writes JSON Schema 2020-12; the API server takes a small subset of OpenAPI 3.0 (no references, no unions, no
``const``, no ``propertyNames``). What this walk does not know it refuses, so that nothing is dropped unseen.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

JsonSchema = dict[str, Any]

_KEPT: Final = frozenset(
    {
        "type",
        "description",
        "enum",
        "pattern",
        "format",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_DROPPED: Final = frozenset({"title", "examples"})
_HANDLED: Final = frozenset(
    {"$ref", "anyOf", "const", "properties", "required", "items", "additionalProperties"}
    | {"default", "$defs"}
)


class SchemaError(ValueError):
    """A model uses something that a structural schema cannot say."""


def structural_schema(model: type[BaseModel]) -> JsonSchema:
    """The structural schema of a model, with descriptions, bounds and defaults.

    A field's default stands in the schema when it is a plain value. An object is defaulted when something inside it
    has a default, since the API server defaults only what is there; it is written out in full, since the server asks
    the rules of a default before it fills it. Empty lists and maps are not defaulted, to keep stored objects short.

    Raises:
        SchemaError: the model uses a construct that the table above does not cover, with the path to it.
    """
    raw = model.model_json_schema(by_alias=True)
    return _node(raw, raw.get("$defs", {}), model.__name__)


def _node(raw: Mapping[str, Any], defs: Mapping[str, JsonSchema], path: str) -> JsonSchema:
    node = _inlined(raw, defs, path)
    if unknown := set(node) - _KEPT - _DROPPED - _HANDLED:
        raise SchemaError(f"{path}: a structural schema cannot say {', '.join(sorted(unknown))}")
    out: JsonSchema = {key: value for key, value in node.items() if key in _KEPT}
    if "const" in node:
        out["enum"] = [node["const"]]
    if out.get("x-kubernetes-int-or-string"):
        out.pop("type")
    _add_members(out, node, defs, path)
    if "type" not in out and not out.get("x-kubernetes-int-or-string"):
        raise SchemaError(f"{path}: has no type")
    if (default := _default(node, out)) is not None:
        out["default"] = default
    return _ordered(out)


def _inlined(raw: Mapping[str, Any], defs: Mapping[str, JsonSchema], path: str) -> JsonSchema:
    """Follow references and take the null out of optional fields; what stands beside them wins."""
    node = dict(raw)
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            target = defs[node.pop("$ref").rpartition("/")[2]]
        else:
            choices = [choice for choice in node.pop("anyOf") if choice != {"type": "null"}]
            if len(choices) != 1:
                raise SchemaError(f"{path}: a field has one type; use an object of optional members")
            target = choices[0]
        node = dict(target) | node
    return node


def _add_members(out: JsonSchema, node: JsonSchema, defs: Mapping[str, JsonSchema], path: str) -> None:
    if "properties" in node:
        out["properties"] = {
            name: _node(member, defs, f"{path}.{name}") for name, member in node["properties"].items()
        }
    if "required" in node:
        out["required"] = list(node["required"])
    if "items" in node:
        out["items"] = _node(node["items"], defs, f"{path}[]")
    values = node.get("additionalProperties", False)
    if isinstance(values, Mapping):
        out["additionalProperties"] = _node(values, defs, f"{path}.*")
    elif values:
        raise SchemaError(f"{path}: holds anything; mark it PreserveUnknownFields or give its values a type")


def _default(node: JsonSchema, out: JsonSchema) -> object:
    default = node.get("default")
    if default in (None, [], {}) and "properties" not in out:
        return None
    if out.get("type") != "object":
        return default
    if "default" not in node or default is None:
        return None
    inner = {name: member["default"] for name, member in out["properties"].items() if "default" in member}
    return inner or None


def _ordered(schema: JsonSchema) -> JsonSchema:
    """Keys in one order, so that the generated file changes only where the models do."""
    first = ("description", "type", "default")
    head = {key: schema[key] for key in first if key in schema}
    return head | {key: schema[key] for key in sorted(schema) if key not in head}
