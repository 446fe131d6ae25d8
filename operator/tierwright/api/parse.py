"""Reads an InferenceTier from plain data: the tier, or all that is wrong with it at once, each with its field path.

Stored objects are read as the API server reads them (unknown fields pruned, nulls dropped); offline tools read
strictly, where an unknown field is an error with a guess at what was meant.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from tierwright.api.parse_words import explain, path_of, shown, unknown_field
from tierwright.api.rules import RULES, AnyRule, violations
from tierwright.api.status import TierStatus
from tierwright.api.tier import API_VERSION, KIND, InferenceTier, ObjectMeta, TierSpec

_TOP_LEVEL: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_UNTYPED: Final = "podTemplate"


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with an object."""

    path: str
    """Field path in the user's spelling, such as ``spec.engine.batching.maxSequences``."""
    message: str
    """What is wrong and what to do."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True)
class ParsedTier:
    """A tier, or why it is none."""

    tier: InferenceTier | None
    """The tier; None when there are errors."""
    errors: tuple[FieldError, ...] = ()
    readable: InferenceTier | None = None
    """The tier as far as every field could be read, also where it breaks rules or holds unknown fields."""


def parse_tier(obj: object, strict: bool, old: TierSpec | None = None) -> ParsedTier:
    """The tier that an object describes, or all of its errors; never raises.

    Args:
        obj: what a YAML or JSON reader gave, of any shape.
        strict: unknown fields are errors; else they are ignored, as the API server prunes them.
        old: the spec that this one replaces, for the rules on changes.
    """
    try:
        return _parsed(obj, strict, old)
    except RecursionError:
        return ParsedTier(None, (FieldError("", "the object is nested too deeply to be a tier"),))


def _parsed(obj: object, strict: bool, old: TierSpec | None) -> ParsedTier:
    if not isinstance(obj, Mapping):
        return ParsedTier(None, (FieldError("", f"an object is expected, not {shown(obj)}"),))
    text, unreadable = _as_json(obj)
    if unreadable is not None:
        return ParsedTier(None, (unreadable,))
    tree: dict[str, Any] = json.loads(text)
    errors = [*_envelope_errors(tree, strict)]
    metadata, metadata_errors = _metadata(tree)
    errors += metadata_errors
    spec, spec_errors = _spec(tree, strict, old)
    errors += spec_errors
    if metadata is None or spec is None:
        return ParsedTier(None, tuple(errors))
    tier = InferenceTier(
        api_version=API_VERSION, kind=KIND, metadata=metadata, spec=spec, status=_status(tree)
    )
    return ParsedTier(None if errors else tier, tuple(errors), readable=tier)


def _as_json(obj: Mapping[Any, Any]) -> tuple[str, FieldError | None]:
    """The object as JSON text; YAML readers also give dates, sets, odd keys and endless loops."""
    try:
        return json.dumps(obj, allow_nan=False), None
    except (TypeError, ValueError) as error:
        return "", FieldError(
            "", f"the object holds what JSON cannot say ({error}); quote such values as strings"
        )


def _envelope_errors(tree: Mapping[str, Any], strict: bool) -> Iterable[FieldError]:
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if tree.get(field) != wanted:
            yield FieldError(field, f"is {shown(tree.get(field))}; set {field}: {wanted}")
    if strict:
        for name in tree:
            if name not in _TOP_LEVEL:
                yield FieldError(name, unknown_field(name, _TOP_LEVEL))


def _metadata(tree: Mapping[str, Any]) -> tuple[ObjectMeta | None, list[FieldError]]:
    try:
        return ObjectMeta.model_validate_json(
            json.dumps(_without_nulls(tree.get("metadata"))), by_alias=True, by_name=False
        ), []
    except ValidationError as error:
        return None, _form_errors("metadata", error)


def _spec(
    tree: Mapping[str, Any], strict: bool, old: TierSpec | None
) -> tuple[TierSpec | None, list[FieldError]]:
    if not isinstance(raw := tree.get("spec"), dict):
        words = (
            "is missing; write what the tier shall be" if raw is None else f"is {shown(raw)}; write an object"
        )
        return None, [FieldError("spec", words)]
    raw = {
        name: value if name == _UNTYPED else _without_nulls(value)
        for name, value in raw.items()
        if value is not None
    }
    text = json.dumps(raw)
    form_errors: list[FieldError] = []
    try:
        if strict:
            _read_spec(text, "forbid")
    except ValidationError as error:
        form_errors = _form_errors("spec", error)
    try:
        spec = _read_spec(text, "ignore")
    except ValidationError as error:
        sound = _sound_parts(raw)
        rules = [rule for rule in RULES if rule.at != "spec"]
        return None, [*(form_errors or _form_errors("spec", error)), *_rule_errors(rules, sound, old)]
    return spec, [*form_errors, *_rule_errors(RULES, spec, old)]


def _read_spec(text: str, unknown_fields: Literal["forbid", "ignore"]) -> TierSpec:
    return TierSpec.model_validate_json(text, strict=True, extra=unknown_fields, by_alias=True, by_name=False)


def _sound_parts(raw: Mapping[str, Any]) -> TierSpec:
    """A spec of those parts that can be read, so that their rules are asked although another part is broken."""
    parts: dict[str, Any] = dict.fromkeys(TierSpec.model_fields)
    for name, field in TierSpec.model_fields.items():
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        with suppress(ValidationError):
            parts[name] = adapter.validate_json(
                json.dumps(raw.get(str(field.alias))), strict=True, by_alias=True, by_name=False
            )
    return TierSpec.model_construct(None, **parts)


def _rule_errors(rules: Iterable[AnyRule], spec: TierSpec, old: TierSpec | None) -> list[FieldError]:
    return [FieldError(violation.path, violation.message) for violation in violations(rules, spec, old)]


def _form_errors(root: str, error: ValidationError) -> list[FieldError]:
    return [FieldError(path_of(root, details["loc"]), explain(details)) for details in error.errors()]


def _status(tree: Mapping[str, Any]) -> TierStatus:
    """The stored status; one that today's models cannot read is as good as none, since it is computed anew."""
    try:
        return TierStatus.model_validate_json(
            json.dumps(tree.get("status") or {}), by_alias=True, by_name=False
        )
    except ValidationError:
        return TierStatus()


def _without_nulls(value: Any) -> Any:
    """The value as the API server stores it: fields that are null are not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
