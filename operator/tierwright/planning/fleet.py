"""A discrete model of a fleet of engines: step by step where prompts are computed, jumping where only tokens are generated.

Requests go round robin to the ready replicas and stay where they are. The step time is linear, the prompt cache never hits,
and the KV cache never fills.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Generic, Protocol, TypeVar

from tierwright.planning.counters import Counters

Page = TypeVar("Page")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: arrival in seconds, prompt and output tokens."""

    at: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Page]):
    """One tick: the newest page that is old enough to have been scraped, with its time, and the fleet's counts."""

    now: float
    page: tuple[float, Page] | None
    ready: int
    starting: tuple[float, ...]
    wanted: int


class Policy(Protocol[Page]):
    """Whoever sets the number of replicas."""

    name: str

    def tick(self, seen: Snapshot[Page]) -> int | None:
        """Replicas to ask for, or None to leave them."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Seconds of a step: fixed + batch·B + context·K + prefill·P."""

    name: str
    fixed: float
    batch: float
    context: float
    prefill: float
    kv_blocks: int = 27_000
    block_size: int = 16


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
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What came of a run, from `score_from` on."""

    requests: int = 0
    misses: int = 0
    hours: float = 0.0
    reversals: int = 0
    violation_minutes: int = 0
    peak: int = 0
    by_minute: dict[int, list[int]] = field(default_factory=dict)

    @property
    def attainment(self) -> float:
        """Share of requests that met both objectives."""
        return 1 - self.misses / max(1, self.requests)


class _Replica:
    __slots__ = ("batch", "born", "context", "heap", "now", "outcome", "queue", "run", "shared", "steps")

    def __init__(self, run: Run, shared: "_Shared", now: float) -> None:
        self.run, self.shared, self.now = run, shared, now
        self.steps, self.batch, self.context = 0, 0, 0.0
        self.queue: deque[list[float]] = deque()  # [prompt tokens left, arrival, prompt, output]
        self.heap: list[
            tuple[int, float, float, float, float]
        ] = []  # (last step, first token, arrival, prompt, output)

    def advance(self, to: float) -> None:
        hw, run, shared = self.run.hardware, self.run, self.shared
        counters = shared.counters
        while self.now < to:
            if self.queue and self.batch < run.sequences:
                budget = float(run.chunk - self.batch)
                computed = 0.0
                done: list[list[float]] = []
                while self.queue and budget > 0 and self.batch + len(done) < run.sequences:
                    head = self.queue[0]
                    take = min(head[0], budget)
                    head[0] -= take
                    computed += take
                    budget -= take
                    if head[0] > 0:
                        break
                    done.append(self.queue.popleft())
                took = hw.fixed + hw.batch * self.batch + hw.context * self.context + hw.prefill * computed
                self._generate(1, took)
                counters.prompt_tokens += computed
                for _, arrival, prompt, output in done:
                    counters.first(self.now - arrival)
                    counters.output_tokens += 1
                    if output <= 1:
                        shared.judge(arrival, self.now - arrival, None)
                    else:
                        heapq.heappush(
                            self.heap, (self.steps + int(output) - 1, self.now, arrival, prompt, output)
                        )
                        self.batch += 1
                        self.context += prompt
            elif self.batch:
                took = hw.fixed + hw.batch * self.batch + hw.context * self.context
                count = min(self.heap[0][0] - self.steps, max(1, ceil((to - self.now) / took)))
                took += hw.context * self.batch * count / 2
                self._generate(count, took)
            else:
                self.now = to

    def _generate(self, count: int, took: float) -> None:
        counters, shared = self.shared.counters, self.shared
        self.now += count * took
        self.steps += count
        counters.steps += count
        if self.batch:
            tokens = self.batch * count
            counters.output_tokens += tokens
            counters.inter_tokens += tokens
            counters.inter_token_seconds += tokens * took
            self.context += tokens
            while self.heap and self.heap[0][0] <= self.steps:
                _, first, arrival, prompt, output = heapq.heappop(self.heap)
                self.batch -= 1
                self.context -= prompt + output - 1
                shared.judge(arrival, first - arrival, (self.now - first) / (output - 1))


class _Shared:
    def __init__(self, run: Run, outcome: Outcome) -> None:
        self.run, self.outcome, self.counters = run, outcome, Counters()

    def judge(self, arrival: float, ttft: float, tpot: float | None) -> None:
        self.counters.ended(tpot)
        if arrival >= self.run.score_from:
            missed = ttft > self.run.ttft or (tpot is not None and tpot > self.run.tpot)
            self.outcome.requests += 1
            self.outcome.misses += missed
            minute = self.outcome.by_minute.setdefault(int(arrival // 60), [0, 0])
            minute[0] += 1
            minute[1] += missed


def replay(
    requests: Sequence[Request],
    policy: Policy[Page],
    run: Run,
    publish: Callable[[Counters, int, int], Page],
    uniform: Callable[[], float],
    target: float = 0.99,
) -> Outcome:
    """Replay the requests while the policy sets the number of replicas.

    `publish` makes the page that the policy sees from the fleet's counters, its KV blocks and their size in tokens;
    `uniform` draws from [0, 1) for the jitter and the failures of starts.
    """
    outcome = Outcome()
    shared = _Shared(run, outcome)
    ready = [_Replica(run, shared, 0.0) for _ in range(run.initial)]
    draining: list[_Replica] = []
    starting: list[tuple[float, float, bool]] = []  # (ready at, asked at, works)
    pages: deque[tuple[float, Page]] = deque()
    wanted, turn, last_move, tick = run.initial, 0, 0, run.tick
    end = requests[-1].at + 120.0
    feed = iter(requests)
    upcoming = next(feed, None)
    while tick <= end:
        while upcoming is not None and upcoming.at < tick:
            if starting and any(each[2] and each[0] <= upcoming.at for each in starting):
                ready += _grown(starting, upcoming.at, run, shared)
            if ready:
                replica = ready[turn % len(ready)]
                turn += 1
                replica.advance(upcoming.at)
                replica.queue.append([upcoming.prompt, upcoming.at, upcoming.prompt, upcoming.output])
            upcoming = next(feed, None)
        ready += _grown(starting, tick, run, shared)
        for replica in (*ready, *draining):
            replica.advance(tick)
        draining = [replica for replica in draining if replica.batch or replica.queue]
        counters = shared.counters
        counters.running = sum(replica.batch for replica in (*ready, *draining))
        counters.waiting = sum(len(replica.queue) for replica in (*ready, *draining))
        capacity = run.hardware.kv_blocks * run.hardware.block_size * max(1, len(ready))
        counters.kv_usage = sum(replica.context for replica in ready) / capacity
        blocks = run.hardware.kv_blocks * max(1, len(ready))
        pages.append((tick, publish(counters, blocks, run.hardware.block_size)))
        while len(pages) > 1 and pages[1][0] <= tick - run.lag:
            pages.popleft()
        billed = len(ready) + len(draining) + len(starting)
        if tick >= run.score_from:
            outcome.hours += billed * run.tick / 3600
            outcome.peak = max(outcome.peak, billed)
        seen_page = None if run.outage[0] <= tick < run.outage[1] else pages[0]
        ages = tuple(tick - asked for _, asked, _ in starting)
        answer = policy.tick(Snapshot(tick, seen_page, len(ready), ages, wanted))
        if answer is not None and answer != wanted:
            answer = min(run.most, max(0, answer))
            move = 1 if answer > wanted else -1
            if tick >= run.score_from and last_move and move != last_move and answer != wanted:
                outcome.reversals += 1
            last_move = move if answer != wanted else last_move
            wanted = answer
            extra = len(ready) + len(starting) - wanted
            for _ in range(max(0, -extra)):
                wait = run.cold_start * (1 + run.jitter * (2 * uniform() - 1))
                starting.append((tick + wait, tick, uniform() >= run.failure))
            for _ in range(max(0, extra)):
                if starting:
                    starting.pop()
                else:
                    draining.append(ready.pop())
        tick += run.tick
    for replica in (*ready, *draining):
        replica.advance(end + 3600)
    outcome.violation_minutes = sum(
        missed > (1 - target) * seen for seen, missed in outcome.by_minute.values()
    )
    return outcome


def _grown(
    starting: list[tuple[float, float, bool]], now: float, run: Run, shared: _Shared
) -> list[_Replica]:
    done = [each for each in starting if each[2] and each[0] <= now]
    for each in done:
        starting.remove(each)
    return [_Replica(run, shared, max(now, each[0])) for each in done]
