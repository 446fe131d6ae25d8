"""Names the fields of Kubernetes objects that hold quantities, which the API server rewrites: 1000m becomes 1."""

from typing import Final

QUANTITY_MAPS: Final = frozenset({"requests", "limits", "capacity", "hard", "overhead"})
"""Objects whose every value is a quantity, by resource name."""

QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "divisor"})
"""Fields that are a quantity themselves."""
