"""Decides which tier is reconciled next and when; takes the time as an argument, so it can be tested without waiting.

A key is dirty from its first change until a reconcile of it starts. Changes within one window become one run, a key
never runs twice at once, and a failure moves only its own key back.
"""

import heapq
import random
from dataclasses import dataclass

from tierwright.control.outcome import Done, Failed, Outcome, RequeueAfter
from tierwright.observe.store import TierKey


@dataclass(frozen=True)
class Timing:
    """Seconds: how long changes are collected, and the bounds of the backoff after failures."""

    window: float = 0.2
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    jitter: float = 0.2
    """Share of a backoff that is drawn at random, so that failures of one cause do not come back together."""


class KeySchedule:
    """Dirty keys with the time at which each is due."""

    def __init__(self, timing: Timing, rng: random.Random) -> None:
        """Start empty."""
        self._timing = timing
        self._rng = rng
        self._due: dict[TierKey, float] = {}
        self._heap: list[tuple[float, int, TierKey]] = []
        self._count = 0
        self._running: set[TierKey] = set()
        self._failures: dict[TierKey, int] = {}
        self._hold: dict[TierKey, float] = {}
        self._looks: dict[TierKey, int] = {}
        """How often in a row a key asked to be looked at again while nothing happened to it."""

    def add(self, key: TierKey, now: float, delay: float | None = None) -> None:
        """Makes a key dirty: due after ``delay`` seconds, or earlier if it already is.

        Without ``delay`` something happened to the tier: it is due after the window, and its pauses begin anew.
        """
        if delay is None:
            self._looks.pop(key, None)
        at = now + (self._timing.window if delay is None else delay)
        at = max(at, self._hold.get(key, at))
        known = self._due.get(key)
        if known is None or at < known:
            self._due[key] = at
            if key not in self._running:
                self._push(at, key)

    def take(self, now: float) -> TierKey | None:
        """The key that is due longest and not running; it counts as running until ``finish``."""
        while self._heap:
            at, _, key = self._heap[0]
            if key in self._running or self._due.get(key) != at:
                heapq.heappop(self._heap)
                continue
            if at > now:
                return None
            heapq.heappop(self._heap)
            del self._due[key]
            self._running.add(key)
            return key
        return None

    def finish(self, key: TierKey, outcome: Outcome, now: float) -> None:
        """Ends a run: success forgets failures, failure comes back after backoff, and news meanwhile is not lost."""
        self._running.discard(key)
        self._hold.pop(key, None)
        match outcome:
            case Done():
                self._failures.pop(key, None)
                self._looks.pop(key, None)
            case RequeueAfter(seconds, at_most):
                self._failures.pop(key, None)
                if at_most is not None and key not in self._due:
                    seconds = self._pause(key, seconds, at_most)
                self.add(key, now, seconds)
            case Failed(_, retry_after):
                if retry_after is not None:
                    self._hold[key] = now + retry_after
                    if key in self._due:  # news that came during the run waits as well
                        self._due[key] = max(self._due[key], self._hold[key])
                self.add(key, now, self._backoff(key))
        if key in self._due:
            self._push(self._due[key], key)

    def forget(self, key: TierKey) -> None:
        """The tier is gone: nothing of it is kept, except that a running reconcile ends by itself."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
        self._hold.pop(key, None)
        self._looks.pop(key, None)

    def next_at(self) -> float | None:
        """When the next key is due; None when nothing waits."""
        while self._heap:
            at, _, key = self._heap[0]
            if key not in self._running and self._due.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def depth(self) -> int:
        """How many keys are dirty."""
        return len(self._due)

    def failures(self, key: TierKey) -> int:
        """How often in a row the key failed."""
        return self._failures.get(key, 0)

    def oldest_overdue(self, now: float) -> float:
        """Seconds by which the key that is due longest is late; 0 when none is."""
        return max(0.0, now - min(self._due.values(), default=now))

    def _backoff(self, key: TierKey) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        full = min(self._timing.backoff_first * 2.0 ** min(failures, 30), self._timing.backoff_most)
        return full * (1.0 - self._timing.jitter * self._rng.random())

    def _pause(self, key: TierKey, first: float, at_most: float) -> float:
        looks = self._looks.get(key, 0)
        self._looks[key] = looks + 1
        return max(first, min(first * 2.0 ** min(looks, 30), at_most))

    def _push(self, at: float, key: TierKey) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
