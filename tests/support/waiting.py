"""Waits until a condition holds, with a deadline, and says what was seen last when it does not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_S = 0.1


def eventually(look: Callable[[], T], what: str, deadline_s: float = 60.0) -> T:
    """Call ``look`` until it returns something true, and return that.

    ``AssertionError`` and ``LookupError`` from ``look`` count as "not yet"; the last one is shown when the deadline
    passes.

    Raises:
        AssertionError: the deadline passed; the message holds ``what`` and what was seen last.
    """
    deadline = time.monotonic() + deadline_s
    seen: object = None
    while True:
        try:
            found = look()
            if found:
                return found
            seen = found
        except (AssertionError, LookupError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {deadline_s:.0f} s; seen last: {seen!r}")
        time.sleep(PAUSE_S)


def holds_for(look: Callable[[], bool], what: str, seconds: float) -> None:
    """Check that ``look`` stays true for ``seconds``: for things that must not happen.

    Raises:
        AssertionError: it became false.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert look(), what
        time.sleep(PAUSE_S)
