"""One replica of the model: steps that compute prompts are taken one by one, steps that only generate are jumped over."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
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
        engine, queue, heap = self.engine, self._queue, self._heap
        while self.now < to:
            batch = self.batch
            took = engine.fixed + engine.batch * batch + engine.context * self.context
            if queue and batch < self._most:
                self._prefill(took)
            elif batch:
                count = heap[0][0] - self._steps
                if count * took > to - self.now:
                    count = max(1, ceil((to - self.now) / took))
                self._generate(count, took + engine.context * batch * count / 2)
            else:
                self.now = to

    def _prefill(self, took: float) -> None:
        """One step with prompts in it; `took` is what it takes without them."""
        queue, counters = self._queue, self._counters
        # A batch as large as the chunk still leaves a token for prompts, or no prompt would ever be computed.
        budget = float(max(1, self._chunk - self.batch))
        computed = 0.0
        done: list[list[float]] = []
        while queue and budget > 0 and self.batch + len(done) < self._most:
            head = queue[0]
            left = head[0]
            if left > budget:
                head[0] = left - budget
                computed += budget
                break
            computed += left
            budget -= left
            done.append(queue.popleft())
        self._generate(1, took + self.engine.prefill * computed)
        counters.prompt_tokens += computed
        counters.output_tokens += len(done)
        for _, arrival, prompt, output in done:
            counters.first(self.now - arrival)
            if output <= 1:
                counters.ended(None)
                self._ended(arrival, self.now - arrival, None)
            else:
                last = self._steps + int(output) - 1
                heappush(self._heap, (last, self.now, arrival, prompt, output))
                self.batch += 1
                self.context += prompt

    def _generate(self, count: int, took: float) -> None:
        """So many steps of the batch, each of so many seconds on average."""
        counters, batch = self._counters, self.batch
        now = self.now = self.now + count * took
        steps = self._steps = self._steps + count
        counters.steps += count
        if not batch:
            return
        tokens = batch * count
        counters.output_tokens += tokens
        counters.inter_tokens += tokens
        counters.inter_token_seconds += tokens * took
        self.context += tokens
        heap = self._heap
        while heap and heap[0][0] <= steps:
            _, first, arrival, prompt, output = heappop(heap)
            self.batch -= 1
            self.context -= prompt + output - 1
            per_token = (now - first) / (output - 1)
            counters.ended(per_token)
            self._ended(arrival, first - arrival, per_token)
