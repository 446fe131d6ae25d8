"""What was learned is written every five minutes while there are requests, seldom without them, never before anything was seen."""

import pytest

from tierwright.capacity.state import TierState
from tierwright.control.autoscale_state import is_due
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


def test_a_shorter_pause_may_be_set() -> None:
    assert is_due(memory(written_at=1000, last_at=1005, last_busy=1005), 1005.0, between=5.0)
