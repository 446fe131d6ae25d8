"""Marks on fields that pydantic cannot express and the CRD needs; put into ``Annotated[...]``.

Each mark adds its Kubernetes extension to the JSON schema; where the API server would refuse a value because of the
mark (a list map with two items of one key), the mark refuses it in the models too.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


def _refuse_repeats(keys: list[Hashable], what: str) -> None:
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise PydanticCustomError(
                "repeated", "{key} stands here twice; {what}", {"key": repr(key), "what": what}
            )
        seen.add(key)


@dataclass(frozen=True)
class IntOrString:
    """The field is an integer or a string on the wire (``x-kubernetes-int-or-string``)."""

    maximum: int
    """Largest value of the integer form; a pattern binds the string form alone."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        bounds = {"minimum": 0, "maximum": self.maximum}
        return handler(schema) | {"x-kubernetes-int-or-string": True} | bounds


@dataclass(frozen=True)
class ListMap:
    """The list is a map keyed by these fields of its items (``x-kubernetes-list-type: map``)."""

    keys: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._keyed_once, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(self.keys),
        }

    def _keyed_once(self, items: list[BaseModel]) -> list[BaseModel]:
        keys: list[Hashable] = [
            getattr(item, self.keys[0])
            if len(self.keys) == 1
            else tuple(getattr(item, key) for key in self.keys)
            for item in items
        ]
        _refuse_repeats(keys, f"keep one item for each {' and '.join(self.keys)}")
        return items


@dataclass(frozen=True)
class ListSet:
    """The list holds each value once (``x-kubernetes-list-type: set``)."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._once, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | {"x-kubernetes-list-type": "set"}

    @staticmethod
    def _once(values: list[Hashable]) -> list[Hashable]:
        _refuse_repeats(values, "keep one of them")
        return values


@dataclass(frozen=True)
class Atomic:
    """The list or object is replaced as a whole by server-side apply."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        inner = handler(schema)
        kind = "list" if inner.get("type") == "array" else "map"
        return inner | {f"x-kubernetes-{kind}-type": "atomic"}


@dataclass(frozen=True)
class PreserveUnknownFields:
    """Anything may stand below this field and is kept (``x-kubernetes-preserve-unknown-fields``)."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        inner = handler(schema)
        return {key: value for key, value in inner.items() if key != "additionalProperties"} | {
            "x-kubernetes-preserve-unknown-fields": True
        }
