"""What of a rule may be tuned, as data: each rule gets the same number of trials within these ranges."""

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Knob:
    """One number of a rule; `name` is the keyword of the rule's constructor. The range includes both ends."""

    name: str
    shipped: float
    least: float
    most: float
    whole: bool = False
    """Whether only whole numbers make sense."""
    log: bool = False
    """Whether a tuner should draw the logarithm evenly: the range spans powers."""

    def __post_init__(self) -> None:
        if not self.least <= self.shipped <= self.most:
            raise ValueError(
                f"knob {self.name}: {self.shipped} as shipped is not in {self.least}..{self.most}"
            )
        if self.log and self.least <= 0:
            raise ValueError(f"knob {self.name}: a logarithmic range starts above zero, not at {self.least}")

    def at(self, share: float) -> float:
        """The value at a share (0 to 1) of the range."""
        if not 0 <= share <= 1:
            raise ValueError(f"knob {self.name}: a share of the range lies in 0..1, not {share}")
        if self.log:
            value = self.least * (self.most / self.least) ** share
        else:
            value = self.least + (self.most - self.least) * share
        value = min(self.most, max(self.least, value))
        return float(round(value)) if self.whole else value

    def share(self, value: float) -> float:
        """Where in the range a value lies: the inverse of `at`, but for its rounding."""
        if self.log:
            return log(value / self.least) / log(self.most / self.least)
        return (value - self.least) / (self.most - self.least)
