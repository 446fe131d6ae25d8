"""One replica of the model: steps that compute prompts are taken one by one, steps that only generate are jumped over."""

import heapq
from collections import deque
from collections.abc import Callable
from math import ceil

from tierwright.planning.counters import Counters
from tierwright.planning.engine import Hardware, Request

_LEAP = 3600.0
"""Seconds advanced at once when a replica finishes what it has."""


class Replica:
    """Prompts are computed in chunks before anything else, oldest first, beside the batch that generates."""

    __slots__ = (
        "_chunk",
        "_counters",
        "_ended",
        "_heap",
        "_most",
        "_queue",
        "_steps",
        "batch",
        "context",
        "engine",
        "now",
    )

    def __init__(
        self,
        engine: Hardware,
        chunk: int,
        sequences: int,
        counters: Counters,
        ended: Callable[[float, float, float | None], None],
        now: float,
    ) -> None:
        """Ready at `now`. `ended` is told each request's arrival, seconds to its first token and per token (None: it had one)."""
        self.engine, self.now = engine, now
        self.batch, self.context = 0, 0.0
        self._chunk, self._most, self._counters, self._ended = chunk, sequences, counters, ended
        self._steps = 0
        self._queue: deque[list[float]] = deque()  # prompt tokens left, arrival, prompt, output
        # Last step, first token, arrival, prompt, output.
        self._heap: list[tuple[int, float, float, float, float]] = []

    @property
    def waiting(self) -> int:
        """Requests whose prompt is not computed."""
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether a request waits or runs."""
        return bool(self.batch or self._queue)

    def take(self, request: Request) -> None:
        """Queue a request; the replica must have been advanced to its arrival."""
        self._queue.append([request.prompt, request.at, request.prompt, request.output])

    def finish(self) -> None:
        """Advance until nothing is left."""
        while self.busy:
            self.advance(self.now + _LEAP)

    def advance(self, to: float) -> None:
        """Work until `to`; the step that is under way then is ended."""
        engine, queue = self.engine, self._queue
        while self.now < to:
            if queue and self.batch < self._most:
                self._prefill()
            elif self.batch:
                took = engine.fixed + engine.batch * self.batch + engine.context * self.context
                count = min(self._heap[0][0] - self._steps, max(1, ceil((to - self.now) / took)))
                took += engine.context * self.batch * count / 2
                self._generate(count, took)
            else:
                self.now = to

    def _prefill(self) -> None:
        engine, queue, counters = self.engine, self._queue, self._counters
        # A batch as large as the chunk still leaves a token for prompts, or no prompt would ever be computed.
        budget = float(max(1, self._chunk - self.batch))
        computed = 0.0
        done: list[list[float]] = []
        while queue and budget > 0 and self.batch + len(done) < self._most:
            head = queue[0]
            part = min(head[0], budget)
            head[0] -= part
            computed += part
            budget -= part
            if head[0] > 0:
                break
            done.append(queue.popleft())
        took = (
            engine.fixed
            + engine.batch * self.batch
            + engine.context * self.context
            + engine.prefill * computed
        )
        self._generate(1, took)
        counters.prompt_tokens += computed
        for _, arrival, prompt, output in done:
            counters.first(self.now - arrival)
            counters.output_tokens += 1
            if output <= 1:
                counters.ended(None)
                self._ended(arrival, self.now - arrival, None)
            else:
                last = self._steps + int(output) - 1
                heapq.heappush(self._heap, (last, self.now, arrival, prompt, output))
                self.batch += 1
                self.context += prompt

    def _generate(self, count: int, took: float) -> None:
        counters, heap = self._counters, self._heap
        self.now += count * took
        self._steps += count
        counters.steps += count
        if not self.batch:
            return
        tokens = self.batch * count
        counters.output_tokens += tokens
        counters.inter_tokens += tokens
        counters.inter_token_seconds += tokens * took
        self.context += tokens
        while heap and heap[0][0] <= self._steps:
            _, first, arrival, prompt, output = heapq.heappop(heap)
            self.batch -= 1
            self.context -= prompt + output - 1
            per_token = (self.now - first) / (output - 1)
            counters.ended(per_token)
            self._ended(arrival, first - arrival, per_token)
