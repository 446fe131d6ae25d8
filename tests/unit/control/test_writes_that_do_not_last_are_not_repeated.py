"""What was refused, changed back or fought over is left alone for a while, and other content is tried at once."""

from datetime import UTC, datetime, timedelta

from tierwright.api.conditions import Reason
from tierwright.control.attempts import Attempts, Row
from tierwright.kube.resources import SERVICE, ObjectRef
from tierwright.observe.snapshot import Problem

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LONG_AGO, JUST_BEFORE = NOW - timedelta(hours=1), NOW - timedelta(seconds=1)
REF = ObjectRef(SERVICE, "serving", "fast")
WORDS = Problem(Reason.FORBIDDEN, "no")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def test_six_writes_of_one_content_within_a_minute_are_a_fight_until_it_was_left_alone_for_a_while() -> None:
    row = Row()
    for number in range(6):
        assert not row.is_fought_over("a", LONG_AGO)
        row.note("a", NOW + seconds(number))
    assert row.is_fought_over("a", NOW)
    assert not row.is_fought_over("b", NOW), "other content is worth a try"
    assert not row.is_fought_over("a", NOW + seconds(5)), "and so is this one later"
    row.note("a", NOW + seconds(300))
    assert not row.is_fought_over("a", NOW), "once, and the row is no longer one of a minute"


def test_slow_corrections_and_alternating_contents_are_no_fight() -> None:
    slow, alternating = Row(), Row()
    for number in range(12):
        slow.note("a", NOW + seconds(20 * number))
        alternating.note("ab"[number % 2], NOW + seconds(number))
    assert not slow.is_fought_over("a", LONG_AGO)
    assert not alternating.is_fought_over("b", LONG_AGO)


def test_refusal_stands_for_its_content_and_time_and_a_final_one_for_ever() -> None:
    attempts = Attempts()
    attempts.refused(REF, "a", WORDS, NOW, final=False)
    assert attempts.standing_refusal(REF, "a", JUST_BEFORE) == WORDS
    assert attempts.standing_refusal(REF, "b", JUST_BEFORE) is None
    assert attempts.standing_refusal(REF, "a", NOW) is None
    attempts.refused(REF, "a", WORDS, NOW, final=True)
    assert attempts.standing_refusal(REF, "a", NOW + seconds(9999)) == WORDS
    attempts.settled(REF)
    assert attempts.standing_refusal(REF, "a", LONG_AGO) is None


def test_fields_that_are_changed_back_within_the_write_are_left_alone() -> None:
    attempts = Attempts()
    attempts.accepted(REF, "a", ("spec.x",), NOW)
    assert attempts.is_changed_back(REF, "a", ("spec.x",), JUST_BEFORE)
    assert not attempts.is_changed_back(REF, "a", ("spec.y",), JUST_BEFORE)
    assert not attempts.is_changed_back(REF, "a", ("spec.x",), NOW)
    attempts.accepted(REF, "a", (), NOW)
    assert not attempts.is_changed_back(REF, "a", ("spec.x",), LONG_AGO)
    assert not attempts.is_fought_over(REF, "a", LONG_AGO)
    assert not attempts.is_fought_over(ObjectRef(SERVICE, "serving", "other"), "a", LONG_AGO)


def test_objects_that_are_not_in_play_any_more_are_forgotten_and_tried_anew_later() -> None:
    """The name of a compile Job holds a hash of its content: each edit of the tier brings another one."""
    attempts, former = Attempts(), [ObjectRef(SERVICE, "serving", f"fast-{number}") for number in range(3)]
    for ref in (REF, *former):
        attempts.accepted(ref, "a", ("spec.x",), NOW)
        attempts.refused(ref, "a", WORDS, NOW, final=True)
    attempts.keep_only({REF})
    assert attempts.refusals.keys() == attempts.rows.keys() == attempts.uncorrected.keys() == {REF}
    assert attempts.standing_refusal(former[0], "a", LONG_AGO) is None
