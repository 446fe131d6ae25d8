"""Decides the words for what is wrong with a field's form: what was given, what is expected, what was likely meant."""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tierwright.api import patterns
from tierwright.api.schema import JsonSchema, structural_schema
from tierwright.api.tier import TierSpec

_TYPES: Final[Mapping[str, str]] = {
    "string_type": "text in quotes",
    "int_type": "a whole number without quotes",
    "bool_type": "true or false without quotes",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
_EXAMPLES: Final[Mapping[str, str]] = {"nodePool": "{matchLabels: {karpenter.sh/nodepool: h100}}"}
"""What an object may look like, by field, where a name alone is what people write first."""
_RENAMED: Final[Mapping[str, str]] = {"on": "when"}
"""Names that people know from elsewhere."""
_BYTES: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?([KMGTP])i?B?", re.IGNORECASE)
_SHOWN: Final = 60


def shown(value: object) -> str:
    """A value as a person may have written it, cut to one short line."""
    if value is None:
        return "missing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def path_of(root: str, location: Sequence[str | int]) -> str:
    """The field path of an error: fields by dots, list items and free keys in brackets."""
    path = root
    for depth, step in enumerate(location):
        holder = _schema_at(location[:depth])
        free = isinstance(step, int) or "additionalProperties" in holder
        path += f"[{step}]" if free else f".{step}"
    return path


def unknown_field(name: str, known: Collection[str]) -> str:
    """What to say about a field that does not exist."""
    guess = _RENAMED.get(name)
    if guess not in known:
        guess = next(iter(difflib.get_close_matches(to_camel(name), sorted(known), n=1)), None)
    if guess is not None:
        return f"there is no such field; did you mean {guess}?"
    return f"there is no such field; remove it or use one of {', '.join(sorted(known))}"


def explain(details: ErrorDetails) -> str:
    """What is wrong with one field and what it takes."""
    kind, context, given = details["type"], details.get("ctx", {}), shown(details.get("input"))
    match kind:
        case "missing":
            return "is missing; set it"
        case "extra_forbidden":
            return _unknown_in_spec(details["loc"])
        case "enum" | "literal_error":
            return f"is {given}; use {context['expected'].replace(chr(39), '')}"
        case "string_pattern_mismatch":
            return f"is {given}; write {_wanted(context['pattern'], details['input'])}"
        case "string_too_short" if pattern := _schema_at(details["loc"]).get("pattern"):
            return f"is {given}; write {patterns.WORDS[pattern]}"
        case "string_too_long" | "string_too_short":
            most = "most" if kind == "string_too_long" else "least"
            limit = context.get("max_length", context.get("min_length"))
            return f"is {given}; write at {most} {limit} character{'' if limit == 1 else 's'}"
        case "too_long" | "too_short":
            most = "most" if kind == "too_long" else "least"
            limit = context.get("max_length", context.get("min_length"))
            return f"has {context['actual_length']} entries; give at {most} {limit}"
        case "greater_than_equal":
            return f"is {given}; use {context['ge']} or more"
        case "less_than_equal":
            return f"is {given}; use {context['le']} or less"
        case "json_invalid" if "recursion" in context["error"]:
            return "is nested too deeply for a tier; some 200 levels are read"
        case "json_invalid":
            return "holds half of a pair of surrogates, such as \\ud800; write the character itself"
        case "string_type" if pattern := _schema_at(details["loc"]).get("pattern"):
            return f"is {given}; write {patterns.WORDS[pattern]}"
        case "model_type" if details["loc"] and (example := _EXAMPLES.get(str(details["loc"][-1]))):
            return f"is {given}; write an object, such as {example}"
        case _ if kind in _TYPES:
            return f"is {given}; write {_TYPES[kind]}"
        case _:
            return details["msg"]


def _wanted(pattern: str, given: str) -> str:
    """What fits the pattern; of an amount in bytes, the same amount as Kubernetes writes it."""
    if pattern == patterns.QUANTITY and (amount := _BYTES.fullmatch(given)):
        number, unit = amount.groups()
        return f"{number}{unit.upper()}i, not {given}"
    return patterns.WORDS[pattern]


def _unknown_in_spec(location: Sequence[str | int]) -> str:
    """A field that stands in exactly one other block is likely meant for that one."""
    name = str(location[-1])
    words = unknown_field(name, _fields_beside(location))
    if "did you mean" in words:
        return words
    elsewhere = list(_places_of(to_camel(name), spec_schema(), "spec"))
    return f"there is no such field here; did you mean {elsewhere[0]}?" if len(elsewhere) == 1 else words


def _places_of(name: str, schema: JsonSchema, path: str) -> Iterator[str]:
    """The paths of the fields of this name, those inside of lists left out."""
    for field, inner in schema.get("properties", {}).items():
        if field == name:
            yield f"{path}.{field}"
        yield from _places_of(name, inner, f"{path}.{field}")


@cache
def spec_schema() -> JsonSchema:
    """The structural schema of the spec."""
    return structural_schema(TierSpec)


def _fields_beside(location: Sequence[str | int]) -> Collection[str]:
    names: dict[str, Any] = _schema_at(location[:-1])["properties"]
    return names


def _schema_at(location: Sequence[str | int]) -> JsonSchema:
    """The schema of a location below the spec; of one outside it, such as the metadata's, nothing is known."""
    schema: JsonSchema = spec_schema()
    for step in location:
        inner = (
            schema.get("properties", {}).get(step)
            or schema.get("items")
            or schema.get("additionalProperties")
        )
        schema = inner if isinstance(inner, dict) else {}
    return schema
