"""A tier at zero is woken once by each wake-up: not again after a restart, not by an old time, and never while it runs."""

from datetime import timedelta

import pytest

from tests.unit.control.pods import NOW
from tierwright.control.wake import MOST_CHARACTERS, Wake, wake

HOLD = 600.0


def ask(value: str | None, heard: str = "", *, asked: int = 0, queued: float = 0.0) -> Wake:
    return wake(value, heard, asked=asked, now=NOW, hold=HOLD, queued=queued)


def test_a_changed_value_wakes_once() -> None:
    first = ask("ticket-7", asked=1)
    assert first == Wake(0.0, "ticket-7")
    assert ask("ticket-7", first.heard) == Wake(0.0, "ticket-7")
    assert ask("ticket-8", first.heard).queued == 1.0


def test_a_value_is_heard_only_once_replicas_are_asked_for() -> None:
    """They may be refused for a while, or the tier may be paused."""
    assert ask("ticket-7") == ask("ticket-7", ask("ticket-7").heard) == Wake(1.0, "")


def test_no_value_wakes_nobody_and_forgets_nothing() -> None:
    for value in (None, ""):
        assert ask(value, "ticket-7") == Wake(0.0, "ticket-7")


def test_a_tier_that_runs_is_awake_and_is_not_woken_when_it_sleeps_again() -> None:
    running = ask("ticket-7", asked=2)
    assert running == Wake(0.0, "ticket-7")
    assert ask("ticket-7", running.heard).queued == 0.0


@pytest.mark.parametrize(
    ("minutes", "queued"),
    [(1, 0.0), (0, 1.0), (-9, 1.0), (-10, 0.0), (-9000, 0.0)],
)
def test_a_time_wakes_at_that_time_and_not_long_after(minutes: int, queued: float) -> None:
    assert ask((NOW + timedelta(minutes=minutes)).isoformat()).queued == queued


def test_a_time_that_has_not_come_is_still_to_be_heard() -> None:
    assert ask((NOW + timedelta(minutes=5)).isoformat(), "before").heard == "before"


def test_a_time_without_a_zone_is_utc_and_a_bare_date_is_a_word() -> None:
    assert ask("2026-11-30T11:55:00").queued == 1.0
    assert ask("2026-11-30T12:55:00").queued == 0.0
    assert ask("2020-01-01").queued == 1.0
    assert ask("ToDo").queued == 1.0


def test_a_long_value_is_remembered_in_part() -> None:
    long = "x" * 5000
    first = ask(long, asked=1)
    assert len(first.heard) == MOST_CHARACTERS
    assert ask(long, first.heard).queued == 0.0


def test_requests_that_wait_wake_without_an_annotation() -> None:
    assert ask(None, queued=3.0) == Wake(3.0, "")
    assert ask("ticket-7", queued=3.0) == Wake(3.0, "")
