"""How far long work is, on a terminal and elsewhere; nothing of work that ends soon."""

import io

import pytest

from tierwright.cli.progress import Progress


class Stream(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def told(terminal: bool, *times: float) -> str:
    """What is written when something is told at each time, seconds from the start."""
    clock = iter([0.0, *times])
    stream = Stream(terminal)
    progress = Progress(stream, lambda: next(clock))
    for at in times:
        progress.tell(f"at {at:g}")
    progress.done()
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_work_that_ends_soon_tells_nothing(terminal: bool) -> None:
    assert told(terminal, 0.05, 0.1, 0.15) == ""


def test_elsewhere_a_line_comes_every_ten_seconds() -> None:
    assert told(False, 5.0, 10.0, 15.0, 19.0, 21.0).splitlines() == ["at 10", "at 21"]


def test_on_a_terminal_one_line_is_written_over_and_taken_away() -> None:
    written = told(True, 0.3, 0.4, 0.6)
    assert "\n" not in written
    shown = [part.rstrip() for part in written.split("\r")]
    assert shown == ["", "at 0.3", "at 0.6", "", ""]


def test_a_long_line_does_not_wrap() -> None:
    stream = Stream(True)
    clock = iter([0.0, 1.0])
    Progress(stream, lambda: next(clock)).tell("x" * 500)
    assert len(stream.getvalue()) < 120
