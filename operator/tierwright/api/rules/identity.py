"""Rules on what makes a tier the tier it is: its model's name, its speed, its accelerator never change."""

from typing import Final

from tierwright.api.rules.rule import AnyRule, TransitionRule
from tierwright.api.tier import TierSpec

# These stand on the spec, not on the fields: a transition rule of a field is not asked when the field goes and comes
# back, and other tiers and the gateway know a tier by these values.
RULES: Final[tuple[AnyRule, ...]] = (
    TransitionRule[TierSpec](
        at="spec",
        field="model.name",
        cel="self.model.name == oldSelf.model.name",
        message="model.name cannot change; create another tier for the other model",
        holds=lambda old, new: new.model.name == old.model.name,
        reason="FieldValueForbidden",
    ),
    TransitionRule[TierSpec](
        at="spec",
        field="speed",
        cel="self.speed == oldSelf.speed",
        message="speed cannot change; create another tier for the other speed",
        holds=lambda old, new: new.speed == old.speed,
        reason="FieldValueForbidden",
    ),
    TransitionRule[TierSpec](
        at="spec",
        field="hardware.accelerator",
        cel="self.hardware.accelerator == oldSelf.hardware.accelerator",
        message="accelerator cannot change; create another tier and delete this one when that one is ready",
        holds=lambda old, new: new.hardware.accelerator == old.hardware.accelerator,
        reason="FieldValueForbidden",
    ),
)
