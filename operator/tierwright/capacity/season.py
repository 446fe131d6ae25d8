"""What a tier's demand usually is at a time of day and of the week: one mean per ten minutes, older days fading."""

from dataclasses import dataclass, replace
from typing import Final

BIN: Final = 600.0
"""Seconds of one bin."""
DAY: Final = 144
"""Bins of a day."""
WEEK: Final = 7 * DAY
"""Bins of a week; the first begins on a Thursday, as 1970 did."""
_NEW_DAY: Final = 0.4
"""Weight of the newest day in a bin of the day; of the newest week in a bin of the week."""


@dataclass(frozen=True, slots=True)
class Season:
    """Means by bin; a negative mean says that the bin was never seen."""

    day: tuple[float, ...] = (-1.0,) * DAY
    week: tuple[float, ...] = (-1.0,) * WEEK
    open_bin: int = -1
    """The bin that is being filled, counted since 1970."""
    open_sum: float = 0.0
    open_seconds: float = 0.0

    def seen(self, at: float, seconds: float, demand: float) -> "Season":
        """With the demand of the interval that ended at `at`."""
        number = int((at - seconds / 2) // BIN)
        season = self if number == self.open_bin else self._closed(number)
        return replace(
            season,
            open_sum=season.open_sum + demand * seconds,
            open_seconds=season.open_seconds + seconds,
        )

    def of_day(self, at: float) -> float | None:
        """Usual demand at this time of day; None where no day was seen."""
        return _between(self.day, at)

    def of_week(self, at: float) -> float | None:
        """Usual demand at this time of the week; None where no week was seen."""
        return _between(self.week, at)

    def _closed(self, number: int) -> "Season":
        if self.open_seconds < BIN / 2:
            return replace(self, open_bin=number, open_sum=0.0, open_seconds=0.0)
        mean = self.open_sum / self.open_seconds
        return replace(
            self,
            day=_updated(self.day, self.open_bin % DAY, mean),
            week=_updated(self.week, self.open_bin % WEEK, mean),
            open_bin=number,
            open_sum=0.0,
            open_seconds=0.0,
        )


def _updated(means: tuple[float, ...], place: int, mean: float) -> tuple[float, ...]:
    old = means[place]
    new = mean if old < 0 else old + _NEW_DAY * (mean - old)
    return (*means[:place], new, *means[place + 1 :])


def _between(means: tuple[float, ...], at: float) -> float | None:
    """Linear between the middles of two bins; None when either was never seen."""
    position = at / BIN - 0.5
    low = int(position // 1)
    before, after = means[low % len(means)], means[(low + 1) % len(means)]
    return None if before < 0 or after < 0 else before + (position - low) * (after - before)
