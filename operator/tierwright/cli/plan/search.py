"""Replays settings, several at a time, until the search has nothing left to try; tells how far it is."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Final

from tierwright.cli.plan.trace import Part, requests_of
from tierwright.planning.autoscaler import simulate
from tierwright.planning.case import Case, Figures, Setting, Static, as_written
from tierwright.planning.search import Tried, scaled_to_try, statics_to_try

_TELL_EVERY: Final = 0.2
_Job = tuple[int, Setting]
_shared: "_Shared | None" = None
"""Set once in each process of a pool."""


class SearchError(Exception):
    """The search could not be ended; the message says why and what to do."""


@dataclass(frozen=True)
class _Shared:
    """What the processes of a pool have in common."""

    replayed: "Synchronized[int]"
    """Requests that all of them have replayed together."""
    stop: Event
    """Set when nobody waits for the figures any more."""


@dataclass(frozen=True)
class Effort:
    """What is tried."""

    statics: tuple[int, ...] = ()
    """Static sizes to compare; none: search for the fewest that do."""
    as_written: bool = False
    """Try the tier's own setting and no other of the autoscaler."""
    jobs: int = 1
    """Replays at once."""


def search(
    cases: Sequence[Case], parts: Sequence[Part], effort: Effort, tell: Callable[[str], None]
) -> list[dict[Setting, Figures]]:
    """What came of each setting that was tried, by case. Raises SearchError."""
    tried: list[dict[Setting, Figures]] = [{} for _ in cases]
    runner = _Inline(cases, parts, tell) if effort.jobs == 1 else _Pool(cases, parts, effort.jobs, tell)
    with runner:
        while batch := [
            (place, setting)
            for place, case in enumerate(cases)
            for setting in _next(case, parts[place], tried[place], effort)
        ]:
            for (place, setting), figures in zip(batch, runner.replay(batch), strict=True):
                tried[place][setting] = figures
    return tried


def _next(case: Case, part: Part, tried: Tried, effort: Effort) -> tuple[Setting, ...]:
    """The settings to try next."""
    if effort.statics:
        statics = tuple(each for each in map(Static, effort.statics) if each not in tried)
    else:
        statics = statics_to_try(case, part.demand, tried, effort.jobs)
    written = () if as_written(case) in tried else (as_written(case),)
    if statics or written:
        return (*statics, *written)
    return () if effort.as_written else scaled_to_try(case, tried)


class _Inline:
    """Replays one after the other in this process."""

    def __init__(self, cases: Sequence[Case], parts: Sequence[Part], tell: Callable[[str], None]) -> None:
        self._cases, self._parts, self._tell = cases, parts, tell
        self._done = self._requests = 0

    def __enter__(self) -> "_Inline":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def replay(self, batch: Sequence[_Job]) -> list[Figures]:
        """The figures of each job."""
        figures = []
        for place, setting in batch:
            requests = requests_of(self._parts[place], self._count)
            figures.append(simulate(self._cases[place], setting, requests))
            self._done += 1
        return figures

    def _count(self, requests: int) -> None:
        self._requests += requests
        self._tell(_words(self._done, self._requests))


class _Pool:
    """Replays in processes of their own."""

    def __init__(
        self, cases: Sequence[Case], parts: Sequence[Part], jobs: int, tell: Callable[[str], None]
    ) -> None:
        self._cases, self._parts, self._tell = cases, parts, tell
        self._done = 0
        # Forked children of a process with threads may hang; a fresh one imports little.
        context = multiprocessing.get_context("spawn")
        self._shared = _Shared(context.Value("Q", 0), context.Event())
        self._pool = ProcessPoolExecutor(jobs, context, _begin, (self._shared,))

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C would leave processes behind that replay for nobody.
        with _uninterrupted():
            self._shared.stop.set()
            self._pool.shutdown(cancel_futures=True)

    def replay(self, batch: Sequence[_Job]) -> list[Figures]:
        """The figures of each job."""
        # Ctrl-C reaches the whole group. A process that begins now inherits that it is blocked; this one hears of it below.
        with _uninterrupted():
            futures = [
                self._pool.submit(_replay, self._cases[place], self._parts[place], setting)
                for place, setting in batch
            ]
        running = set(futures)
        while running:
            ended, running = wait(running, _TELL_EVERY, FIRST_COMPLETED)
            self._done += len(ended)
            self._tell(_words(self._done, self._shared.replayed.value))
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise SearchError(
                "a process that replayed was ended from outside, perhaps for want of memory; try --jobs 1"
            ) from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C takes effect afterwards."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _words(done: int, requests: int) -> str:
    return f"replaying: {done} settings tried, {requests:,} requests replayed"


def _begin(shared: _Shared) -> None:
    global _shared
    _shared = shared


def _replay(case: Case, part: Part, setting: Setting) -> Figures:
    return simulate(case, setting, requests_of(part, _count))


def _count(requests: int) -> None:
    if _shared is None:
        return
    if _shared.stop.is_set():
        raise SearchError("stopped")
    with _shared.replayed.get_lock():
        _shared.replayed.value += requests
