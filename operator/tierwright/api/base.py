"""Decides how every API model reads and writes: camelCase on the wire, immutable in Python, unknown fields pruned."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Base of all v1alpha1 models.

    Unknown fields are ignored here, as the API server prunes them; offline tools that must refuse them pass
    ``extra="forbid"`` to ``model_validate``.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    def to_wire(self) -> dict[str, object]:
        """The object as it stands on the wire: camelCase keys, fields that are None left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
