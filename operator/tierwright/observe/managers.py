"""Names the field managers under which the operator writes: whose field is whose follows from them."""

from typing import Final

CHILDREN_MANAGER: Final = "tierwright"
SCALER_MANAGER: Final = "tierwright-scaler"
STATUS_MANAGER: Final = "tierwright-status"
AUTOSCALER_MANAGER: Final = "tierwright-autoscaler"
"""Of what was learned."""
