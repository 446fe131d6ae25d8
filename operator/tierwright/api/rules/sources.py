"""Rules on where weights come from: forms that are built, and settings that mean nothing for a form."""

import re
from typing import Final

from tierwright.api.engine import DraftModel
from tierwright.api.model import ModelSpec
from tierwright.api.rules.rule import AnyRule, Rule
from tierwright.api.tier import TierSpec

_LATER: Final = ("gs://", "oci://")
_DOWNLOADED: Final = ("hf://", "s3://")
_FORMS: Final = (
    r"^hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+(@[A-Za-z0-9][A-Za-z0-9._/-]*)?$",
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$",
    r"^pvc://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(/.*)?$",
    r"^file:///.+$",
    r"^(gs|oci)://.*$",
)
_NOT_BUILT: Final = "gs:// and oci:// sources are not supported yet; use hf://, pvc:// or file://"
_ODD_FORM: Final = (
    "the source has none of the forms hf://owner/repo, hf://owner/repo@revision, s3://bucket/prefix, "
    "pvc://claim/path and file:///path"
)
_CLIMBS: Final = "the source holds a '..' step; write the path without it"
_BUILT_CEL: Final = " && ".join(f"!self.source.startsWith('{prefix}')" for prefix in _LATER)
_FORM_CEL: Final = " || ".join(f"self.source.matches(r'{form}')" for form in _FORMS)
_CLIMBS_CEL: Final = "!self.source.split('/').exists(step, step == '..')"


def is_downloaded(source: str) -> bool:
    """Whether the weights have to be fetched before the engine can start."""
    return source.startswith(_DOWNLOADED)


def any_downloaded(spec: TierSpec) -> bool:
    """Whether the model or its draft model has to be fetched."""
    speculation = spec.engine.speculation
    draft = speculation.draft_model if speculation is not None else None
    return is_downloaded(spec.model.source) or (draft is not None and is_downloaded(draft.source))


def _cel_downloaded(expression: str) -> str:
    return "(" + " || ".join(f"{expression}.startsWith('{prefix}')" for prefix in _DOWNLOADED) + ")"


ANY_DOWNLOADED_CEL: Final = (
    f"({_cel_downloaded('self.model.source')} || (has(self.engine.speculation) && "
    "has(self.engine.speculation.draftModel) && "
    f"{_cel_downloaded('self.engine.speculation.draftModel.source')}))"
)
"""``any_downloaded`` for the API server; ``self`` is the spec."""


def _built(node: ModelSpec | DraftModel) -> bool:
    return not node.source.startswith(_LATER)


def _has_a_form(node: ModelSpec | DraftModel) -> bool:
    return any(re.fullmatch(form, node.source) for form in _FORMS)


def _stays_below(node: ModelSpec | DraftModel) -> bool:
    return ".." not in node.source.split("/")


def _source_rules(at: str) -> tuple[AnyRule, ...]:
    return (
        Rule[ModelSpec | DraftModel](at=at, field="source", cel=_BUILT_CEL, message=_NOT_BUILT, holds=_built),
        Rule[ModelSpec | DraftModel](
            at=at, field="source", cel=_FORM_CEL, message=_ODD_FORM, holds=_has_a_form
        ),
        Rule[ModelSpec | DraftModel](
            at=at, field="source", cel=_CLIMBS_CEL, message=_CLIMBS, holds=_stays_below
        ),
    )


RULES: Final[tuple[AnyRule, ...]] = (
    *_source_rules("spec.model"),
    *_source_rules("spec.engine.speculation.draftModel"),
    Rule[TierSpec](
        at="spec",
        field="model.tokenSecretRef",
        cel=f"!has(self.model.tokenSecretRef) || {ANY_DOWNLOADED_CEL}",
        message="a token is used only to download from hf:// and s3://; remove tokenSecretRef",
        holds=lambda spec: spec.model.token_secret_ref is None or any_downloaded(spec),
    ),
)
