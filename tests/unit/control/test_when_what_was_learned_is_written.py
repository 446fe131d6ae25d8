"""What was learned is written every five minutes while there are requests, seldom without them, never before anything was seen."""

from dataclasses import replace

import pytest

from tierwright.capacity.state import MOST_BYTES, Needed, TierState, load
from tierwright.capacity.step_time import Point, StepPoints
from tierwright.control.autoscale_state import fitting, is_due
from tierwright.control.autoscale_tier import Memory

HOUR = 3600.0


def memory(*, written_at: float | None, last_at: float, last_busy: float) -> Memory:
    """A tier that was last measured, and last busy, at these times."""
    return Memory("u-1", state=TierState(last_at=last_at, last_busy=last_busy), written_at=written_at)


@pytest.mark.parametrize(
    ("kept", "now", "due"),
    [
        (memory(written_at=None, last_at=1000, last_busy=1000), 9000.0, False),
        (memory(written_at=1000, last_at=1299, last_busy=1299), 1299.0, False),
        (memory(written_at=1000, last_at=1300, last_busy=1300), 1300.0, True),
        (memory(written_at=1000, last_at=2000, last_busy=900), 2000.0, False),
        (memory(written_at=1000, last_at=1000 + 6 * HOUR, last_busy=900), 1000 + 6 * HOUR, True),
        (memory(written_at=1000, last_at=900, last_busy=900), 1000 + 9 * HOUR, False),
    ],
    ids=["not begun", "too soon", "busy", "idle", "idle for long", "nothing was measured since"],
)
def test_when_the_state_is_written(kept: Memory, now: float, due: bool) -> None:
    assert is_due(kept, now) is due


def test_what_could_not_be_read_is_not_overwritten() -> None:
    unread = replace(memory(written_at=1000, last_at=2000, last_busy=2000), unread="403 Forbidden")
    assert not is_due(unread, 9000.0)


def test_a_hold_of_days_is_kept_within_the_bound_and_shrinks_nothing_sooner() -> None:
    needed = tuple(Needed(1_800_000_000.0 + 60 * minute, 1 + minute % 7) for minute in range(3 * 1440))
    text = fitting(TierState(needed=needed))
    assert len(text) <= MOST_BYTES
    back = load(text)
    assert back is not None
    for each in (needed[0], needed[1000], needed[-1]):
        assert any(kept.at >= each.at - 1 and kept.replicas >= each.replicas for kept in back.needed)
    assert back.needed[-1].at == pytest.approx(needed[-1].at, abs=1)
    assert fitting(TierState(needed=needed[:60])).count("1800") >= 60, "what fits is kept as it is"


def test_what_has_no_bound_for_another_reason_is_refused() -> None:
    endless = TierState(
        points=StepPoints(((Point(1.1, 2.2, 3.3, 4.4),) * 9999,)), needed=(Needed(1.0, 2),) * 3
    )
    with pytest.raises(ValueError, match="at most"):
        fitting(endless)


def test_a_shorter_pause_may_be_set() -> None:
    assert is_due(memory(written_at=1000, last_at=1005, last_busy=1005), 1005.0, between=5.0)
