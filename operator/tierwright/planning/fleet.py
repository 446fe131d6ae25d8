"""A discrete model of a fleet of engines whose number of replicas a policy sets: requests are replayed, and each one is judged.

Requests go round robin to the ready replicas and stay where they are; without a ready replica they wait in front. The step
time is linear, the prompt cache never hits, and the KV cache never fills.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar

from tierwright.planning.counters import Counters
from tierwright.planning.engine import Hardware, Request
from tierwright.planning.replica import Replica

Page = TypeVar("Page")

_AFTER = 120.0
"""Seconds for which the policy still decides when the last request has come."""


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Page]):
    """One tick: the newest page that is old enough to have been scraped, with its time, and the fleet's counts."""

    now: float
    page: tuple[float, Page] | None
    ready: int
    starting: tuple[float, ...]
    """Age in seconds of each replica that is not ready yet, whether it starts or waits for room."""
    wanted: int
    queued: int = 0
    """Requests that wait since no replica is ready."""


class Policy(Protocol[Page]):
    """Whoever sets the number of replicas."""

    name: str

    def tick(self, seen: Snapshot[Page]) -> int | None:
        """Replicas to ask for, or None to leave them."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a fleet is run and judged; times in seconds."""

    hardware: Hardware
    ttft: float = 1.0
    tpot: float = 0.06
    cold_start: float = 180.0
    jitter: float = 0.0
    failure: float = 0.0
    tick: float = 10.0
    lag: float = 15.0
    initial: int = 2
    most: int = 24
    chunk: int = 2048
    sequences: int = 256
    score_from: float = 0.0
    outage: tuple[float, float] = (0.0, 0.0)
    """From and until when no page can be had."""
    shortage: tuple[float, float, int] = (0.0, 0.0, 0)
    """From and until when the pool has room for no more than so many replicas; further ones wait, unbilled, and start later."""
    seed: int = 1


class Change(NamedTuple):
    """The fleet from one time on."""

    at: float
    wanted: int
    ready: int
    billed: int
    """Ready, starting and draining replicas."""


@dataclass(slots=True)
class Outcome:
    """What came of a run, from `score_from` on."""

    requests: int = 0
    misses: int = 0
    """Requests that missed any objective."""
    first_token_misses: int = 0
    per_token_misses: int = 0
    hours: float = 0.0
    """Replica-hours, those of starting and draining replicas included."""
    seconds: float = 0.0
    """Time that the replica-hours are of."""
    reversals: int = 0
    violation_minutes: int = 0
    peak: int = 0
    by_minute: dict[int, list[int]] = field(default_factory=dict)
    """Requests and misses by the minute of arrival."""
    changes: list[Change] = field(default_factory=list)
    """The fleet over time, whether scored or not."""

    @property
    def attainment(self) -> float:
        """Share of requests that met both objectives."""
        return 1 - self.misses / max(1, self.requests)


class _Fleet:
    """The replicas and what they owe."""

    def __init__(self, run: Run, outcome: Outcome, uniform: Callable[[], float]) -> None:
        self.run, self.outcome, self._uniform = run, outcome, uniform
        self.counters = Counters(run.ttft, run.tpot)
        self.ready = [self._replica(0.0) for _ in range(run.initial)]
        self.draining: list[Replica] = []
        self.starting: list[tuple[float, float, bool]] = []  # ready at, asked at, works
        self.pending: list[float] = []
        """When each replica was asked for that the pool has no room for."""
        self.held: deque[Request] = deque()
        self._turn = 0

    def arrive(self, request: Request) -> None:
        """Give a request to the next ready replica."""
        if self.starting:
            self.grow(request.at)
        if not self.ready:
            self.held.append(request)
            return
        replica = self.ready[self._turn % len(self.ready)]
        self._turn += 1
        replica.advance(request.at)
        replica.take(request)

    def grow(self, now: float) -> None:
        """Make ready what has started by now."""
        done = [each for each in self.starting if each[2] and each[0] <= now]
        for each in done:
            self.starting.remove(each)
            self.ready.append(self._replica(max(now, each[0])))
        while self.held and self.ready:
            replica = self.ready[self._turn % len(self.ready)]
            self._turn += 1
            replica.take(self.held.popleft())

    def advance(self, to: float) -> None:
        """Work until `to`, and refresh the gauges."""
        self.grow(to)
        if self.pending:
            self._place(to)
        for replica in (*self.ready, *self.draining):
            replica.advance(to)
        self.draining = [replica for replica in self.draining if replica.busy]
        counters, engine = self.counters, self.run.hardware
        counters.running = sum(replica.batch for replica in (*self.ready, *self.draining))
        counters.waiting = sum(replica.waiting for replica in (*self.ready, *self.draining))
        capacity = engine.kv_blocks * engine.block_size * max(1, len(self.ready))
        counters.kv_usage = sum(replica.context for replica in self.ready) / capacity

    def resize(self, wanted: int, now: float) -> None:
        """Start or take away replicas; those that wait and start go first, then the youngest, which ends what it has."""
        extra = len(self.ready) + len(self.starting) + len(self.pending) - wanted
        self.pending += [now] * max(0, -extra)
        for _ in range(max(0, extra)):
            if self.pending:
                self.pending.pop()
            elif self.starting:
                self.starting.pop()
            else:
                self.draining.append(self.ready.pop())
        self._place(now)

    def _place(self, now: float) -> None:
        """Start what the pool has room for, first asked first."""
        run = self.run
        begin, end, room = run.shortage
        placed = len(self.ready) + len(self.starting) + len(self.draining)
        while self.pending and (placed < room or not begin <= now < end):
            asked = self.pending.pop(0)
            wait = run.cold_start * (1 + run.jitter * (2 * self._uniform() - 1))
            self.starting.append((now + wait, asked, self._uniform() >= run.failure))
            placed += 1

    def finish(self) -> None:
        """Let every request end; one that no replica will ever take has missed everything."""
        for replica in (*self.ready, *self.draining):
            replica.finish()
        while self.held:
            self._judge(self.held.popleft().at, inf, None)

    def _replica(self, now: float) -> Replica:
        run = self.run
        return Replica(run.hardware, run.chunk, run.sequences, self.counters, self._judge, now)

    def _judge(self, arrival: float, ttft: float, tpot: float | None) -> None:
        if arrival < self.run.score_from:
            return
        outcome, run = self.outcome, self.run
        late, slow = ttft > run.ttft, tpot is not None and tpot > run.tpot
        missed = late or slow
        outcome.requests += 1
        outcome.misses += missed
        outcome.first_token_misses += late
        outcome.per_token_misses += slow
        minute = outcome.by_minute.setdefault(int(arrival // 60), [0, 0])
        minute[0] += 1
        minute[1] += missed


def replay(
    requests: Iterable[Request],
    policy: Policy[Page],
    run: Run,
    publish: Callable[[Counters, int, int], Page],
    uniform: Callable[[], float],
    target: float = 0.99,
) -> Outcome:
    """Replay the requests, which come in order of arrival, while the policy sets the number of replicas.

    `publish` makes the page that the policy sees from the fleet's counters, its KV blocks and their size in tokens;
    `uniform` draws from [0, 1) for the jitter and the failures of starts. Memory does not grow with the number of requests.
    """
    outcome = Outcome()
    fleet = _Fleet(run, outcome, uniform)
    pages: deque[tuple[float, Page]] = deque()
    wanted, last_move, tick = run.initial, 0, run.tick
    feed = iter(requests)
    upcoming = next(feed, None)
    last = -_AFTER
    while upcoming is not None or tick <= last + _AFTER:
        while upcoming is not None and upcoming[0] < tick:
            fleet.arrive(upcoming)
            last = upcoming[0]
            upcoming = next(feed, None)
        fleet.advance(tick)
        pages.append((tick, _page(fleet, publish)))
        while len(pages) > 1 and pages[1][0] <= tick - run.lag:
            pages.popleft()
        ready, billed = len(fleet.ready), len(fleet.ready) + len(fleet.draining) + len(fleet.starting)
        if tick >= run.score_from:
            outcome.hours += billed * run.tick / 3600
            outcome.seconds += run.tick
            outcome.peak = max(outcome.peak, billed)
        change = Change(tick, wanted, ready, billed)
        if not outcome.changes or outcome.changes[-1][1:] != change[1:]:
            outcome.changes.append(change)
        seen_page = None if run.outage[0] <= tick < run.outage[1] else pages[0]
        ages = tuple(tick - asked for asked in (*(start[1] for start in fleet.starting), *fleet.pending))
        answer = policy.tick(Snapshot(tick, seen_page, ready, ages, wanted, len(fleet.held)))
        if answer is not None and answer != wanted:
            answer = min(run.most, max(0, answer))
            move = 1 if answer > wanted else -1
            if tick >= run.score_from and last_move and move != last_move and answer != wanted:
                outcome.reversals += 1
            last_move = move if answer != wanted else last_move
            wanted = answer
            fleet.resize(wanted, tick)
        tick += run.tick
    fleet.finish()
    outcome.violation_minutes = sum(
        missed > (1 - target) * seen for seen, missed in outcome.by_minute.values()
    )
    return outcome


def _page(fleet: _Fleet, publish: Callable[[Counters, int, int], Page]) -> Page:
    engine = fleet.run.hardware
    return publish(fleet.counters, engine.kv_blocks * max(1, len(fleet.ready)), engine.block_size)
