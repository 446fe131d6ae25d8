"""The parts that several rules share: a loop's own interval, a sliding window, and the bounds of a fleet."""

from collections import deque
from collections.abc import Iterator

from tierwright.observe.metrics import MetricsPage
from tierwright.observe.page_delta import PageDelta, between

_CLOSE = 1e-9


class Every:
    """A loop of its own interval inside the benchmark's ticks: runs at the first tick at or after each multiple of it.

    An interval shorter than the tick runs at each tick.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next: float | None = None

    def due(self, now: float) -> bool:
        """Whether the loop runs at this tick, the first one included."""
        if self._next is None:
            self._next = now
        if now < self._next - _CLOSE:
            return False
        while self._next <= now + _CLOSE:
            self._next += self._seconds
        return True


class Window:
    """The values of the last `seconds`; one that is exactly as old counts no more, the newest always does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Keep a value, and forget what is too old."""
        self._kept.append((now, value))
        self.forget(now)

    def forget(self, now: float) -> None:
        """Drop what is too old at `now`."""
        while self._kept and self._kept[0][0] <= min(now - self._seconds + _CLOSE, now - _CLOSE):
            self._kept.popleft()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[float]:
        return (value for _, value in self._kept)

    def since(self, start: float) -> list[float]:
        """The values after `start`."""
        return [value for at, value in self._kept if at > start + _CLOSE]

    @property
    def mean(self) -> float:
        """Mean of the values; there is at least one after `add`."""
        return sum(self) / len(self._kept)


class Pages:
    """The pages of the last `seconds`, and what happened between the oldest and the newest of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: deque[tuple[float, MetricsPage]] = deque()

    def add(self, at: float, page: MetricsPage) -> None:
        """Keep a page; one that was seen already is not kept twice."""
        if self._kept and at <= self._kept[-1][0]:
            return
        self._kept.append((at, page))
        while len(self._kept) > 2 and self._kept[1][0] <= at - self._seconds + _CLOSE:
            self._kept.popleft()

    @property
    def delta(self) -> PageDelta | None:
        """What happened, or None before the second page."""
        return between(self._kept[0][1], self._kept[-1][1]) if len(self._kept) > 1 else None

    @property
    def span(self) -> float:
        """Seconds that the delta covers; 0 before the second page."""
        return self._kept[-1][0] - self._kept[0][0] if self._kept else 0.0


class Ready:
    """How many replicas were ready when a page was made: pages are older than the count that comes with them."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, int]] = deque(maxlen=64)

    def add(self, now: float, ready: int) -> None:
        """Keep the count of a tick."""
        self._kept.append((now, ready))

    def at(self, time: float) -> int:
        """The count at the last tick not after `time`, or the oldest that is kept; at least one."""
        earlier = [ready for at, ready in self._kept if at <= time + _CLOSE]
        return max(1, earlier[-1] if earlier else self._kept[0][1])


def bounded(replicas: float, least: int, most: int) -> int:
    """A whole number of replicas within a fleet's bounds."""
    return min(most, max(least, int(replicas)))
