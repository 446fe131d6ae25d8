"""A condition before it has a time: what each decider returns."""

from dataclasses import dataclass
from typing import Literal

from tierwright.api.conditions import Reason

ConditionStatus = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Draft:
    """Status, reason and words of one condition."""

    status: ConditionStatus
    reason: Reason
    message: str
