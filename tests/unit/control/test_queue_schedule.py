"""When a tier is reconciled: changes are collected, one run per tier at a time, failures back off alone."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tierwright.control.outcome import Done, Failed, Outcome, RequeueAfter
from tierwright.control.schedule import KeySchedule, Timing

A = ("serving", "a")
B = ("serving", "b")
ERROR = RuntimeError("no")


def schedule(**timing: float) -> KeySchedule:
    return KeySchedule(Timing(**timing), random.Random(1))


def test_fifty_edits_in_a_second_become_few_runs() -> None:
    queue = schedule(window=0.2)
    runs = []
    for tick in range(1200):
        now = tick / 1000
        if tick < 1000 and tick % 20 == 0:
            queue.add(A, now)
        if (key := queue.take(now)) is not None:
            runs.append(now)
            queue.finish(key, Done(), now)
    assert 4 <= len(runs) <= 6
    assert runs[-1] >= 0.98, "the last edit is seen by a run after it"


def test_a_key_never_runs_twice_at_once_and_news_during_a_run_is_not_lost() -> None:
    queue = schedule(window=0.2)
    queue.add(A, 0.0)
    assert queue.take(0.2) == A
    queue.add(A, 0.3)
    assert queue.take(5.0) is None, "it still runs"
    queue.finish(A, Done(), 6.0)
    assert queue.take(6.0) == A
    queue.finish(A, Done(), 6.1)
    assert queue.take(100.0) is None


def test_the_key_that_is_due_longest_comes_first() -> None:
    queue = schedule(window=0.2)
    queue.add(B, 0.0)
    queue.add(A, 0.1)
    assert [queue.take(1.0), queue.take(1.0)] == [B, A]


def test_nothing_is_taken_before_it_is_due_and_the_next_time_is_known() -> None:
    queue = schedule(window=0.2)
    assert queue.next_at() is None
    queue.add(A, 1.0)
    assert queue.take(1.1) is None
    assert queue.next_at() == 1.2


def test_an_earlier_reason_wins_over_a_later_one() -> None:
    queue = schedule(window=0.2)
    queue.add(A, 0.0, delay=60.0)
    queue.add(A, 1.0)
    assert queue.next_at() == 1.2
    queue.add(A, 1.0, delay=90.0)
    assert queue.next_at() == 1.2


def test_failures_back_off_from_one_second_to_sixty_and_success_starts_anew() -> None:
    queue = schedule(backoff_first=1.0, backoff_most=60.0, jitter=0.2)
    now = 0.0
    queue.add(A, now)
    waits = []
    for _ in range(10):
        now = queue.next_at() or 0.0
        assert queue.take(now) == A
        queue.finish(A, Failed(ERROR), now)
        waits.append((queue.next_at() or 0.0) - now)
    for number, wait in enumerate(waits):
        full = min(2.0**number, 60.0)
        assert full * 0.8 <= wait <= full
    assert queue.failures(A) == 10
    now = queue.next_at() or 0.0
    assert queue.take(now) == A
    queue.finish(A, Done(), now)
    assert queue.failures(A) == 0
    assert queue.next_at() is None


def test_one_failing_key_delays_no_other() -> None:
    queue = schedule(window=0.2)
    queue.add(A, 0.0)
    assert queue.take(0.2) == A
    queue.finish(A, Failed(ERROR), 0.2)
    queue.add(B, 0.2)
    assert queue.take(0.4) == B


def test_news_does_not_wait_for_the_backoff_but_for_what_the_server_asked() -> None:
    queue = schedule(window=0.2)
    queue.add(A, 0.0)
    assert queue.take(0.2) == A
    queue.finish(A, Failed(ERROR), 0.2)
    queue.add(A, 0.3)
    assert queue.take(0.5) == A, "an edit may be the fix"
    queue.finish(A, Failed(ERROR, retry_after=10.0), 0.5)
    queue.add(A, 0.6)
    assert queue.take(10.0) is None, "429 with retry-after is obeyed"
    assert queue.take(10.5) == A


def test_news_that_came_during_the_run_waits_for_what_the_server_asked_as_well() -> None:
    queue = schedule(window=0.2)
    queue.add(A, 0.0)
    assert queue.take(1.0) == A
    queue.add(A, 1.1)
    queue.finish(A, Failed(ERROR, retry_after=3.0), 1.5)
    assert queue.take(4.4) is None
    assert queue.take(4.5) == A


def test_a_requeue_comes_when_asked_and_forgets_failures() -> None:
    queue = schedule()
    queue.add(A, 0.0)
    assert queue.take(1.0) == A
    queue.finish(A, Failed(ERROR), 1.0)
    assert queue.take(10.0) == A
    queue.finish(A, RequeueAfter(15.0), 10.0)
    assert queue.failures(A) == 0
    assert queue.take(24.9) is None
    assert queue.take(25.0) == A


def pauses(queue: KeySchedule, rounds: int, start: float) -> list[float]:
    """How long A waits each time when all that it ever asks is to be looked at again."""
    found, now = [], start
    for _ in range(rounds):
        queue.finish(A, RequeueAfter(30.0, at_most=300.0), now)
        due = queue.next_at()
        assert due is not None
        found.append(due - now)
        now = due
        assert queue.take(now) == A
    return found


def test_what_stays_stuck_is_looked_at_ever_more_seldom_until_something_happens() -> None:
    queue = schedule()
    queue.add(A, 0.0)
    assert queue.take(1.0) == A
    assert pauses(queue, 6, 1.0) == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]
    queue.add(A, 5000.0)  # an event
    soon, then, *_ = pauses(queue, 2, 5000.0)
    assert soon < 1.0
    assert then == 30.0, "the pauses begin anew"


def test_a_resync_of_what_is_stuck_is_nothing_that_happened_to_it() -> None:
    queue = schedule()
    queue.add(A, 0.0)
    assert queue.take(1.0) == A
    pauses(queue, 4, 1.0)
    queue.finish(A, RequeueAfter(30.0, at_most=300.0), 2000.0)
    queue.add(A, 2100.0, delay=5.0)
    assert queue.take(2105.0) == A
    assert pauses(queue, 1, 2105.0) == [300.0]


def test_a_wait_that_is_longer_than_the_bound_stays_as_it_is() -> None:
    queue = schedule()
    queue.add(A, 0.0)
    assert queue.take(1.0) == A
    queue.finish(A, RequeueAfter(30.0, at_most=1.0), 1.0)
    assert queue.next_at() == 31.0


def test_a_key_that_is_gone_leaves_nothing_behind() -> None:
    queue = schedule()
    queue.add(A, 0.0)
    queue.add(B, 0.0, delay=50.0)
    queue.forget(A)
    assert queue.depth() == 1
    assert queue.take(10.0) is None
    assert queue.next_at() == 50.0


def test_the_oldest_overdue_key_is_told() -> None:
    queue = schedule(window=0.2)
    assert queue.oldest_overdue(5.0) == 0.0
    queue.add(A, 1.0)
    assert queue.oldest_overdue(1.1) == 0.0
    assert queue.oldest_overdue(3.2) == 2.0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 3), st.floats(0, 5)),
            st.tuples(st.just("take"), st.integers(0, 3), st.just(0.0)),
            st.tuples(st.sampled_from(["done", "failed", "requeue"]), st.integers(0, 3), st.floats(0.1, 5)),
            st.tuples(st.just("wait"), st.integers(0, 3), st.floats(0, 70)),
        ),
        max_size=60,
    )
)
def test_every_change_is_followed_by_a_run_that_starts_after_it(steps: list[tuple[str, int, float]]) -> None:
    queue = schedule(window=0.2)
    now = 0.0
    running: dict[tuple[str, str], float] = {}
    changed: dict[tuple[str, str], float] = {}
    for action, number, amount in steps:
        key = ("n", str(number))
        match action:
            case "add":
                queue.add(key, now, amount)
                changed[key] = now
            case "take":
                taken = queue.take(now)
                if taken is not None:
                    assert taken not in running
                    running[taken] = now
                    if changed.get(taken, now) <= now:
                        changed.pop(taken, None)
            case "wait":
                now += amount
            case _:
                if key in running:
                    del running[key]
                    ends: dict[str, Outcome] = {
                        "done": Done(),
                        "failed": Failed(ERROR),
                        "requeue": RequeueAfter(amount),
                    }
                    queue.finish(key, ends[action], now)
    for key in list(running):
        queue.finish(key, Done(), now)
    now += 1000.0
    left = set()
    while (taken := queue.take(now)) is not None:
        left.add(taken)
        queue.finish(taken, Done(), now)
    assert changed.keys() <= left
