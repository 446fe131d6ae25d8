"""Rules on where weights come from: forms that are built, and settings that mean nothing for a form."""

import re
from typing import Final

from tierwright.api.engine import DraftModel
from tierwright.api.model import ModelSpec
from tierwright.api.rules.rule import AnyRule, Rule
from tierwright.api.sources import DOWNLOADED, FORMS, climbs
from tierwright.api.tier import TierSpec

_LATER: Final = ("gs://", "oci://")
_TOKEN_OPENS: Final = "hf://"  # noqa: S105 - a scheme
_NOT_BUILT: Final = "gs:// and oci:// sources are not supported yet; use hf://, s3://, pvc:// or file://"
_ODD_FORM: Final = (
    "the source has none of the forms hf://owner/repo, hf://owner/repo@revision, s3://bucket/prefix, "
    "pvc://claim/path and file:///path"
)
_CLIMBS: Final = "the source holds a '..' step; write the path without it"
_LATER_CEL: Final = " || ".join(f"self.source.startsWith('{prefix}')" for prefix in _LATER)
_FORM_CEL: Final = " || ".join([_LATER_CEL, *(f"self.source.matches(r'{form}')" for form in FORMS.values())])
_CLIMBS_CEL: Final = "!self.source.split('/').exists(step, step == '..')"


def is_downloaded(source: str) -> bool:
    """Whether the weights have to be fetched before the engine can start."""
    return source.startswith(DOWNLOADED)


def any_downloaded(spec: TierSpec) -> bool:
    """Whether the model or its draft model has to be fetched."""
    return any(map(is_downloaded, _sources(spec)))


def _sources(spec: TierSpec) -> tuple[str, ...]:
    speculation = spec.engine.speculation
    draft = speculation.draft_model if speculation is not None else None
    return (spec.model.source,) if draft is None else (spec.model.source, draft.source)


def _any_cel(*prefixes: str) -> str:
    """CEL that asks whether the model's source or its draft's begins with one of these; ``self`` is the spec."""

    def begins(expression: str) -> str:
        return "(" + " || ".join(f"{expression}.startsWith('{prefix}')" for prefix in prefixes) + ")"

    return (
        f"({begins('self.model.source')} || (has(self.engine.speculation) && "
        "has(self.engine.speculation.draftModel) && "
        f"{begins('self.engine.speculation.draftModel.source')}))"
    )


_MAY_FILL: Final = (*DOWNLOADED, *_LATER)
ANY_MAY_FILL_CEL: Final = _any_cel(*_MAY_FILL)
"""``any_may_fill`` for the API server; ``self`` is the spec."""


def any_may_fill(spec: TierSpec) -> bool:
    """Whether a source is one that fills a volume, now or once it is built; it is refused by itself until then."""
    return any(source.startswith(_MAY_FILL) for source in _sources(spec))


def _built(node: ModelSpec | DraftModel) -> bool:
    return not node.source.startswith(_LATER)


def _has_a_form(node: ModelSpec | DraftModel) -> bool:
    return not _built(node) or any(re.fullmatch(form, node.source) for form in FORMS.values())


def _stays_below(node: ModelSpec | DraftModel) -> bool:
    return not climbs(node.source)


def _token_opens_something(spec: TierSpec) -> bool:
    return spec.model.token_secret_ref is None or any(
        source.startswith(_TOKEN_OPENS) for source in _sources(spec)
    )


def _source_rules(at: str) -> tuple[AnyRule, ...]:
    return tuple(
        Rule[ModelSpec | DraftModel](at=at, field="source", cel=cel, message=message, holds=holds)
        for cel, message, holds in (
            (f"!({_LATER_CEL})", _NOT_BUILT, _built),
            (_FORM_CEL, _ODD_FORM, _has_a_form),
            (_CLIMBS_CEL, _CLIMBS, _stays_below),
        )
    )


RULES: Final[tuple[AnyRule, ...]] = (
    *_source_rules("spec.model"),
    *_source_rules("spec.engine.speculation.draftModel"),
    Rule[TierSpec](
        at="spec",
        field="model.tokenSecretRef",
        cel=f"!has(self.model.tokenSecretRef) || {_any_cel(_TOKEN_OPENS)}",
        message=(
            "a token is used only to download from hf://; remove tokenSecretRef, and give s3:// its keys in "
            "engine.env or a cloud role in pod.serviceAccount"
        ),
        holds=_token_opens_something,
    ),
)
