"""Between the referee's replay and a policy: counts what happens, shows it as an engine's page every tick, starts replicas as slowly as told.

The replay tells means over the time since the last callback, and no histograms: it is called back every 100 ms or as often as about
every other request ends, whichever is sooner, so that a mean covers about one request. It tells a request's time to the first token when
the request has ended; an engine does at the first token. Its count of steps is not told, so the page has none.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from bench.autoscale.policy import Policy
from tierwright.planning import fleet
from tierwright.planning.counters import Counters
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Change, Outcome, Run

_LONGEST_MS, _SHORTEST_MS, _GAUGES_MS = 100.0, 10.0, 1000.0
_ENDED_PER_CALL = 0.5
_REMEMBERED = 1.0
"""Seconds over which the rate of requests is taken: bursts last no longer, and a mean over one of them hides its misses."""
_QUEUE_SECONDS = 1.0
"""A replica in a long step is not among the reports of one interval: its queue is what it last was, for so long."""


@dataclass(slots=True)
class _HeldBack:
    """A replica that starts and that the replay does not know of yet."""

    asked: float
    released: float


class Bridge:
    """The replay's callback. Times are those of the requests; the replay's own begin at the first arrival."""

    def __init__(
        self,
        policy: Policy,
        run: Run,
        requests: Sequence[Request],
        publish: Callable[[Counters, int, int], str],
        gauges_only: bool = False,
    ) -> None:
        self.outcome = Outcome()
        self.startup = run.cold_start * (1 - run.jitter)
        """What the replay itself takes for a start; the rest is held back here."""
        self._policy, self._run, self._publish = policy, run, publish
        self._begin, self._end = requests[0].at, requests[-1].at
        self._draw = random.Random(f"starts/{run.seed}")  # noqa: S311 - a simulation
        self._counters = Counters(run.ttft, run.tpot)
        self._queues: dict[int, tuple[float, int]] = {}
        self._asked: dict[int, float] = {}
        self._pending: list[float] = []
        """When each replica was asked for that the pool has no room for."""
        self._held: list[_HeldBack] = []
        self._released: list[float] = []
        self._next = (self._begin // run.tick + 1) * run.tick
        self._wanted, self._told, self._move = run.initial, run.initial, 0
        self._arrived = 0
        self._rate = 0.0
        self._gauges_only = gauges_only

    def initial_tick_ms(self) -> float:
        """First callback."""
        return _SHORTEST_MS

    def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Count, and at the policy's tick decide."""
        milliseconds = snapshot["now_ms"]
        now = self._begin + milliseconds / 1000
        traffic = snapshot["traffic"]
        self._arrived += traffic["num_req"]
        self._counters.output_tokens += traffic[
            "accept_length_forward_count"
        ]  # one token each: no speculation
        ended = traffic["shape_count"]
        if ended:
            self._ended(traffic, ended)
        seconds = traffic["duration_s"]
        if seconds > 0:
            now_rate = max(ended, traffic["num_req"]) / seconds
            self._rate += min(1.0, seconds / _REMEMBERED) * (now_rate - self._rate)
        if now >= self._next - _QUEUE_SECONDS:
            self._note_queues(snapshot["decode_fpm_snapshots"], now)
        if now >= self._next - 1e-6:
            self._next += self._run.tick
            self._decide(snapshot, now)
        if self._pending:
            self._place(snapshot["total_decode_count"], now)
        told = self._wanted - len(self._pending) - self._still_held(now)
        target, self._told = (None if told == self._told else told), told
        interval = min(_LONGEST_MS, max(_SHORTEST_MS, 1000 * _ENDED_PER_CALL / max(1e-9, self._rate)))
        interval = _GAUGES_MS if self._gauges_only else interval
        soon = min(milliseconds + interval, max(milliseconds + 1, (self._next - self._begin) * 1000))
        return {"target_prefill": None, "target_decode": target, "next_tick_ms": soon}

    def _ended(self, traffic: dict[str, Any], ended: int) -> None:
        counters = self._counters
        for _ in range(traffic["ttft_count"]):
            counters.first(traffic["avg_ttft_ms"] / 1000)
        slow = traffic["itl_count"]
        for _ in range(slow):
            counters.ended(traffic["avg_itl_ms"] / 1000)
        for _ in range(ended - slow):
            counters.ended(None)
        prompt = ended * traffic["avg_isl"]
        counters.prompt_tokens += prompt
        counters.cached_tokens += prompt * traffic["avg_kv_hit_rate"]
        tokens = ended * (traffic["avg_osl"] - 1)
        counters.inter_tokens += tokens
        counters.inter_token_seconds += tokens * traffic["avg_itl_ms"] / 1000

    def _note_queues(self, reports: Sequence[dict[str, Any]], now: float) -> None:
        for each in reports:
            self._queues[each["worker_id"]] = (now, each["num_queued_prefill"] + each["num_queued_decode"])

    def _decide(self, snapshot: dict[str, Any], now: float) -> None:
        run, counters, outcome = self._run, self._counters, self.outcome
        self._queues = {id_: seen for id_, seen in self._queues.items() if seen[0] > now - _QUEUE_SECONDS}
        inside = max(0, self._arrived - counters.finished)
        counters.waiting = min(inside, sum(queue for _, queue in self._queues.values()))
        counters.running = inside - counters.waiting
        ready = snapshot["active_decode_count"]
        blocks = run.hardware.kv_blocks * max(1, ready)
        held = sum(each["sum_decode_kv_tokens"] for each in snapshot["decode_fpm_snapshots"])
        counters.kv_usage = min(1.0, held / (blocks * run.hardware.block_size))
        fresh = (now, self._publish(counters, blocks, run.hardware.block_size))
        self._asked = {id_: self._asked_at(id_, now) for id_ in snapshot["starting_decode_ids"]}
        asked = (*self._asked.values(), *(each.asked for each in self._held), *self._pending)
        billed = snapshot["total_decode_count"] + len(self._held)
        if run.score_from <= now <= self._end:
            outcome.hours += billed * run.tick / 3600
            outcome.seconds += run.tick
            outcome.peak = max(outcome.peak, billed)
        change = Change(now, self._wanted, ready, billed)
        if not outcome.changes or outcome.changes[-1][1:] != change[1:]:
            outcome.changes.append(change)
        ages = tuple(sorted((now - at for at in asked), reverse=True))
        answer = self._policy.tick(fleet.Snapshot(now, fresh, ready, ages, self._wanted))
        if answer is not None:
            self._set(min(run.most, max(1, answer)), now)

    def _asked_at(self, id_: int, now: float) -> float:
        """When a replica was asked for: before the replay knew of it, if it was held back."""
        if id_ in self._asked:
            return self._asked[id_]
        return self._released.pop(0) if self._released else now

    def _set(self, wanted: int, now: float) -> None:
        """Reckon a move; what waits and what is held back goes first."""
        move = (wanted > self._wanted) - (wanted < self._wanted)
        if not move:
            return
        if self._move and move != self._move and self._run.score_from <= now <= self._end:
            self.outcome.reversals += 1
        self._move = move
        self._pending += [now] * max(0, wanted - self._wanted)
        for _ in range(max(0, self._wanted - wanted)):
            if self._pending:
                self._pending.pop()
            elif self._held:
                self._held.pop()
        self._wanted = wanted

    def _place(self, known: int, now: float) -> None:
        """Start what the pool has room for, first asked first; `known` to the replay are so many."""
        begin, end, room = self._run.shortage
        unfilled = max(0, self._told - known)  # told to start at this very tick
        placed = known + unfilled + len(self._held)
        while self._pending and (placed < room or not begin <= now < end):
            asked, late = self._pending.pop(0), self._late()
            placed += 1
            if late > 0:
                self._held.append(_HeldBack(asked, now + late))
            else:
                self._released.append(asked)

    def _late(self) -> float:
        """Seconds by which a start takes longer than the shortest; endless for one that fails."""
        run = self._run
        if run.failure and self._draw.random() < run.failure:
            return inf
        return run.cold_start * 2 * run.jitter * self._draw.random() if run.jitter else 0.0

    def _still_held(self, now: float) -> int:
        if self._held:
            self._released += [each.asked for each in self._held if each.released <= now]
            self._held = [each for each in self._held if each.released > now]
        return len(self._held)
