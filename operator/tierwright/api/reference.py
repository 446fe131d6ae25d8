"""Writes the API reference page: every field with type, default and bounds, every rule, column and condition."""

from collections.abc import Iterator

from tierwright.api.conditions import CONDITIONS
from tierwright.api.crd import PRINTER_COLUMNS
from tierwright.api.patterns import WORDS
from tierwright.api.rules import RULES
from tierwright.api.rules.rule import AnyRule, TransitionRule
from tierwright.api.schema import JsonSchema, structural_schema
from tierwright.api.status import TierStatus
from tierwright.api.tier import API_VERSION, KIND, TierSpec

_BOUNDS = (
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} entries"),
    ("maxProperties", "at most {} entries"),
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
)


def reference_page() -> str:
    """The page as Markdown."""
    return "\n".join(
        [
            f"# {KIND}",
            "",
            "<!-- Generated from operator/tierwright/api by `make generate`; do not edit. -->",
            "",
            f"`apiVersion: {API_VERSION}`, `kind: {KIND}`; short name `itier`, category `tierwright`. One object is one "
            "speed of one model. Samples: [docs/samples](../samples).",
            "",
            "## spec",
            "",
            *_table("spec", structural_schema(TierSpec)),
            "",
            "## Rules",
            "",
            "What breaks a rule is refused when it is applied, and `tierwright render` says the same words offline.",
            "",
            "| field | refused with | asked |",
            "|---|---|---|",
            *(_rule_row(rule) for rule in RULES),
            "",
            "## status",
            "",
            *_table("status", structural_schema(TierStatus)),
            "",
            "## Conditions",
            "",
            "| type | states, when True |",
            "|---|---|",
            *(f"| {condition} | {meaning} |" for condition, meaning in CONDITIONS.items()),
            "",
            "The reasons are in the [runbook](../runbook.md).",
            "",
            "## Printed columns",
            "",
            "| column | from | shown |",
            "|---|---|---|",
            *(
                f"| {column['name']} | `{column['jsonPath']}` | {'with -o wide' if column.get('priority') else 'always'} |"
                for column in PRINTER_COLUMNS
            ),
            "",
        ]
    )


def _table(root: str, schema: JsonSchema) -> Iterator[str]:
    yield "| field | type | default | bounds | meaning |"
    yield "|---|---|---|---|---|"
    yield from _rows(root, schema)


def _rows(path: str, schema: JsonSchema) -> Iterator[str]:
    required = schema.get("required", [])
    for name, member in schema["properties"].items():
        here = f"{path}.{name}"
        default = "required" if name in required else _default(member)
        meaning = _cell(member.get("description", ""))
        yield f"| `{here}` | {_type(member)} | {default} | {_bounds(member)} | {meaning} |"
        if "properties" in member:
            yield from _rows(here, member)
        elif "properties" in member.get("items", {}):
            yield from _rows(f"{here}[]", member["items"])


def _type(schema: JsonSchema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_type(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return "any object"
    return str(schema["type"])


def _default(schema: JsonSchema) -> str:
    if "default" not in schema or "properties" in schema:
        return ""
    value = schema["default"]
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _bounds(schema: JsonSchema) -> str:
    inner = schema.get("items") or schema.get("additionalProperties") or {}
    return _cell("; ".join([*_limits(schema), *(f"each {limit}" for limit in _limits(inner))]))


def _limits(schema: JsonSchema) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "pattern" in schema:
        yield WORDS.get(schema["pattern"], f"matches `{schema['pattern']}`")
    yield from (text.format(schema[key]) for key, text in _BOUNDS if key in schema)


def _rule_row(rule: AnyRule) -> str:
    asked = "on change" if isinstance(rule, TransitionRule) else "always"
    return f"| `{rule.at}.{rule.field}` | {_cell(rule.message)} | {asked} |"


def _cell(text: str) -> str:
    """Text that cannot end a table's cell."""
    return text.replace("|", "\\|")
