"""What several fleets hold at once: the largest sum at one moment, which is no sum of the largest."""

from tierwright.planning.fleet import Change
from tierwright.planning.together import Most, most_together


def fleet(*billed: tuple[float, int]) -> list[Change]:
    return [Change(at, replicas, replicas, replicas) for at, replicas in billed]


def test_peaks_at_different_times_do_not_add_up() -> None:
    morning = fleet((10, 1), (100, 4), (200, 1))
    evening = fleet((10, 1), (300, 3), (400, 1))
    assert most_together([(morning, 2), (evening, 4)]) == Most(14, 300, 8 + 12)


def test_one_that_shrinks_in_the_moment_in_which_another_grows_makes_room_for_it() -> None:
    assert most_together([(fleet((10, 3), (20, 1)), 1), (fleet((10, 1), (20, 3)), 1)]) == Most(4, 10, 6)


def test_replicas_that_start_or_drain_hold_theirs() -> None:
    assert most_together([([Change(10, 1, 1, 1), Change(20, 2, 1, 3)], 8)]) == Most(24, 20, 24)


def test_no_fleet_holds_nothing() -> None:
    assert most_together([]) == Most(0, 0, 0)
    assert most_together([([], 4)]) == Most(0, 0, 0)
