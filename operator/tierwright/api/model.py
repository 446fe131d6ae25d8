"""Which model a tier serves: the served name, where the weights come from, and the token to fetch them."""

from typing import Annotated

from pydantic import Field

from tierwright.api import patterns
from tierwright.api.base import ApiModel
from tierwright.api.scalars import ObjectName, SecretKey

ModelSource = Annotated[
    str,
    Field(
        pattern=patterns.SOURCE,
        max_length=1024,
        examples=["hf://meta-llama/Llama-3.3-70B-Instruct@main", "pvc://models/llama-70b"],
    ),
]
"""Where weights lie: hf://owner/repo[@revision], s3://bucket/prefix, pvc://claim/path or file:///path."""


class SecretKeyRef(ApiModel):
    """One key of a Secret in the tier's namespace."""

    name: ObjectName
    """Name of the Secret."""
    key: SecretKey
    """Key in the Secret."""


class ModelSpec(ApiModel):
    """The model that the tier serves."""

    name: Annotated[str, Field(pattern=patterns.SERVED_NAME, min_length=1, max_length=253)]
    """Served name. Tiers of one namespace that share it are speeds of the same model. Immutable."""
    source: ModelSource
    """Where the weights come from: hf://owner/repo@revision, s3://bucket/prefix, pvc://claim/path or file:///path."""
    token_secret_ref: SecretKeyRef | None = None
    """Secret key that holds the access token for the source; passed to everything that downloads."""
