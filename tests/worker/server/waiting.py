"""Waits for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Callable


async def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Return once it holds; AssertionError when it does not come to."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        await asyncio.sleep(0.01)
